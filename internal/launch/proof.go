// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Secret is what the processes of a job know and others do not. It is made at random for each job,
// handed on in a file that only the job's user can read, and never sent: a connection proves it.
type Secret [32]byte

// Version is the version of the handshake and of the frames between ranks and launcher.
const Version = 2 // 1: ranks did not say why they fail

const (
	// maxGreeting bounds what a side may say of itself in a handshake, in bytes.
	maxGreeting = 1024
	// handshakeTime bounds a handshake. Both ends are on one machine; what takes longer is not a
	// rank.
	handshakeTime = 10 * time.Second
)

// Side is which end of a connection a process is.
type Side uint8

// A connection has two ends.
const (
	Initiator Side = 1
	Acceptor  Side = 2
)

func (s Side) other() Side { return Initiator + Acceptor - s }

func newSecret() (s Secret) {
	_, _ = rand.Read(s[:]) // never fails
	return s
}

// String hides the secret from logs.
func (s Secret) String() string { return "(secret)" }

// GoString hides it likewise.
func (s Secret) GoString() string { return s.String() }

const secretFile = "secret"

func writeSecret(dir string, s *Secret) error {
	return os.WriteFile(filepath.Join(dir, secretFile), []byte(hex.EncodeToString(s[:])), 0o600)
}

func readSecret(dir string) (Secret, error) { return readSecretFile(filepath.Join(dir, secretFile)) }

// readSecretFile reads a file that only its owner may be able to read.
func readSecretFile(path string) (s Secret, err error) {
	f, err := os.Open(path)
	if err != nil {
		return s, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return s, err
	} else if !private(st) {
		return s, fmt.Errorf("%s: others may read it (mode %v)", f.Name(), st.Mode())
	}
	text := make([]byte, hex.EncodedLen(len(s))+2)
	n, err := io.ReadFull(f, text)
	if err == io.ErrUnexpectedEOF && n == hex.EncodedLen(len(s))+1 && text[n-1] == '\n' {
		n--
	}
	if err != io.ErrUnexpectedEOF || n != hex.EncodedLen(len(s)) {
		return s, fmt.Errorf("%s: %w: not %d digits", f.Name(), ErrProtocol, hex.EncodedLen(len(s)))
	}
	if _, err := hex.Decode(s[:], text[:n]); err != nil {
		return s, fmt.Errorf("%s: %w: not hexadecimal", f.Name(), ErrProtocol)
	}
	return s, nil
}

// Handshake is the beginning of every connection between processes of a job. Each side proves to
// the other that it knows the secret, without telling it, and says what it is: mine goes to the
// other side, theirs comes from there and is covered by the proof. label separates the uses of one
// secret; both sides give the same. The caller sets a deadline on rw. After an error the connection
// is of no use.
//
//	hello: "weft", version, side, length of greeting (2 bytes, big endian), 32 random bytes, greeting
//	proof: HMAC-SHA256 under the secret of label, proving side, initiator's hello, acceptor's hello
//
// The initiator says hello, then the acceptor; the initiator proves, then the acceptor. So whoever
// does not know the secret gets no proof to look at from an acceptor, and a proof is of no use to
// anybody in another connection, or on the other side.
func Handshake(rw io.ReadWriter, s *Secret, label string, side Side, mine []byte) (theirs []byte, err error) {
	if len(mine) > maxGreeting {
		return nil, fmt.Errorf("%w: a greeting of %d bytes; at most %d", ErrLimit, len(mine), maxGreeting)
	}
	if side != Initiator && side != Acceptor {
		panic(fmt.Sprintf("launch: side %d", side))
	}
	var hellos [2][]byte
	own, peer := side-1, side.other()-1
	hellos[own] = makeHello(side, mine)
	say := func(b []byte) {
		if err == nil {
			_, err = rw.Write(b)
		}
	}
	listen := func() {
		if err == nil {
			hellos[peer], err = readHello(rw, side.other())
		}
	}
	prove := func() { say(proof(s, label, side, hellos)) }
	verify := func() {
		var got [sha256.Size]byte
		if err == nil {
			_, err = io.ReadFull(rw, got[:])
		}
		if err == nil && !hmac.Equal(got[:], proof(s, label, side.other(), hellos)) {
			err = ErrSecret
		}
	}
	if side == Initiator {
		say(hellos[own])
		listen()
		prove()
		verify()
	} else {
		listen()
		if errors.As(err, new(versionError)) {
			// the initiator learns the version of this side, and does not try again
			_, _ = rw.Write(hellos[own])
		}
		say(hellos[own])
		verify()
		prove()
	}
	switch {
	case err == nil:
		return hellos[peer][helloSize:], nil
	case side == Initiator && cutOff(err):
		err = &cutError{heard: hellos[peer] != nil, err: err}
	}
	return nil, err
}

// cutError is the end of a connection during the initiator's handshake, or before the first frame
// behind it. The other side may have closed it to make room for others, as a lobby does; heard: or
// because the proof was none; proved: it was one.
type cutError struct {
	heard, proved bool
	err           error
}

func (e *cutError) Error() string {
	switch {
	case e.proved:
		return "the other side has ended the connection: " + e.err.Error()
	case e.heard:
		return "the other side has ended the connection; the secret files may differ: " + e.err.Error()
	}
	return "the other side has ended the connection before it said anything; it may speak another version, or have more connections than it can look at: " + e.err.Error()
}

func (e *cutError) Unwrap() error { return e.err }

func cutOff(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// introduce shakes hands with a launcher, and returns what that says of itself, and its answer.
func introduce(c net.Conn, s *Secret, label string, mine []byte) (theirs []byte, f frame, err error) {
	_ = c.SetDeadline(time.Now().Add(handshakeTime))
	if theirs, err = Handshake(c, s, label, Initiator, mine); err != nil {
		return nil, f, fmt.Errorf("handshake: %w", err)
	}
	if f, err = answered(c); err == nil && f.kind == jobRefuses {
		err = fmt.Errorf("%w: %s", ErrRefused, f.value)
	}
	_ = c.SetDeadline(time.Time{})
	return theirs, f, err
}

// answered reads what the acceptor of a handshake says behind it.
func answered(r io.Reader) (frame, error) {
	f, err := readFrame(r)
	if cutOff(err) {
		err = &cutError{heard: true, proved: true, err: err}
	}
	return f, err
}

// heardAgain is how often a handshake is tried again that was cut off behind the other side's
// hello. Most likely the proof was none; to have been in the way of others for so long is rare.
const heardAgain = 4

// patiently connects and shakes hands by calling f, again and again if the connection was cut off:
// the other side may have made room for others. That goes on for the time of a handshake.
func patiently(ctx context.Context, f func() error) error {
	pause := 10 * time.Millisecond
	end := time.Now().Add(handshakeTime)
	for heard := 0; ; {
		err := f()
		off, cut := errors.AsType[*cutError](err)
		if !cut || time.Now().After(end) {
			return err
		}
		if off.heard {
			if heard++; heard > heardAgain {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
	}
}

// versionError is the version of the other side, which is not that of this one.
type versionError byte

func (v versionError) Error() string {
	return fmt.Sprintf("%v: version %d on the other side, %d here; build launcher and program from the same weft", ErrProtocol, byte(v), Version)
}

func (versionError) Unwrap() error { return ErrProtocol }

const helloSize = 4 + 1 + 1 + 2 + 32

func makeHello(side Side, greeting []byte) []byte {
	b := make([]byte, helloSize, helloSize+len(greeting))
	copy(b, "weft")
	b[4], b[5] = Version, byte(side)
	binary.BigEndian.PutUint16(b[6:], uint16(len(greeting)))
	_, _ = rand.Read(b[8:helloSize])
	return append(b, greeting...)
}

func readHello(r io.Reader, side Side) ([]byte, error) {
	b := make([]byte, helloSize)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(b[6:]))
	switch {
	case string(b[:4]) != "weft" || b[5] != byte(side):
		return nil, fmt.Errorf("%w: the connection does not begin as one of weft's", ErrProtocol)
	case b[4] != Version:
		if n <= maxGreeting {
			// what is not read when a connection is closed may take with it what was said
			_, _ = io.CopyN(io.Discard, r, int64(n))
		}
		return nil, versionError(b[4])
	case n > maxGreeting:
		return nil, fmt.Errorf("%w: a greeting of %d bytes", ErrProtocol, n)
	}
	b = append(b, make([]byte, n)...)
	_, err := io.ReadFull(r, b[helloSize:])
	return b, err
}

func proof(s *Secret, label string, side Side, hellos [2][]byte) []byte {
	m := hmac.New(sha256.New, s[:])
	for _, part := range [][]byte{[]byte(label), {byte(side)}, hellos[0], hellos[1]} {
		m.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		m.Write(part)
	}
	return m.Sum(nil)
}

// Key is what launchers on several machines have in common, and others do not. A person makes it,
// as a file, and takes it to each machine. It may serve many jobs: the secret of a job is made from
// it and from the name of the job, so nothing secret is ever sent.
type Key Secret

// String hides the key from logs.
func (k Key) String() string { return "(key)" }

// GoString hides it likewise.
func (k Key) GoString() string { return k.String() }

// secret is that of a job.
func (k *Key) secret(job string) (s Secret) {
	m := hmac.New(sha256.New, k[:])
	m.Write([]byte("weft secret of job " + job))
	copy(s[:], m.Sum(nil))
	return s
}

// LoadKey reads the key in a file: 64 hexadecimal digits, which nobody but its owner may be able to
// read. If there is no such file and create is true, it is made; by way of a temporary one, whose
// path tell, if that is not nil, is called with before it is made.
func LoadKey(path string, create bool, tell func(temp string)) (_ *Key, err error) {
	var s Secret
	if create {
		err = makeKey(path, tell)
	}
	if err == nil {
		s, err = readSecretFile(path)
	}
	if err != nil {
		err = fmt.Errorf("%w (it has 64 hexadecimal digits, and mode 0600; a launcher that listens makes it)", err)
		return nil, &Error{Op: "secret file", Rank: -1, Err: err}
	}
	return (*Key)(&s), nil
}

// makeKey writes a key to a file, unless there is one. The file appears with all that is in it: a
// launcher that is killed leaves none that is empty.
func makeKey(path string, tell func(temp string)) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return err
	}
	k, name := newSecret(), newSecret()
	temp := filepath.Join(dir, ".weft-secret-"+hex.EncodeToString(name[:8]))
	if tell != nil {
		tell(temp)
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		if p := (*fs.PathError)(nil); errors.As(err, &p) {
			p.Path = path // which is the one that a person knows
		}
		return err
	}
	defer os.Remove(temp)
	_, err = f.WriteString(hex.EncodeToString(k[:]) + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(temp, path); err == nil || errors.Is(err, fs.ErrExist) { // another launcher's
		return nil
	}
	return os.Rename(temp, path) // a file system without links
}
