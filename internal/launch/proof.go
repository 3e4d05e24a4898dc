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

// Secret is known to the processes of a job only. It is made at random for each job and passed on
// in a file that only the job's user can read. It is never sent: both ends of a connection prove
// that they know it.
type Secret [32]byte

// Version is the version of the handshake and of the frames between ranks and launcher.
const Version = 2 // 1: ranks did not say why they fail

const (
	// maxGreeting bounds the greeting of a side in a handshake, in bytes.
	maxGreeting = 1024
	// handshakeTime bounds a handshake. An honest peer needs far less, also over a network.
	handshakeTime = 10 * time.Second
)

// Side is an end of a connection.
type Side uint8

// The two ends of a connection.
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

// readSecretFile reads a secret. It refuses a file that other users can access.
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

// Handshake begins every connection between processes of a job. Each side proves to the other that
// it knows the secret, without sending it, and sends a greeting: mine is this side's greeting,
// theirs is the other side's, which the proof covers. label separates the uses of one secret; both
// sides must pass the same label. The caller must set a deadline on rw, and must close the
// connection after an error.
//
//	hello: "weft", version, side, length of greeting (2 bytes, big endian), 32 random bytes, greeting
//	proof: HMAC-SHA256 under the secret of label, proving side, initiator's hello, acceptor's hello
//
// The order is: hello of the initiator, hello of the acceptor, proof of the initiator, proof of the
// acceptor. So a peer that does not know the secret gets no proof from an acceptor. A proof is
// valid neither in another connection nor from the other side.
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
			// This tells the initiator the version of this side, so that it does not try again.
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

// cutError says that a connection has ended during the initiator's handshake, or before the first
// frame after it. The acceptor may have closed it to make room for others, as a lobby does, or
// because of a wrong proof.
type cutError struct {
	heard  bool // the acceptor's hello has arrived, so the initiator's proof may be wrong
	proved bool // the acceptor's proof has arrived, so the initiator's proof is right
	err    error
}

func (e *cutError) Error() string {
	switch {
	case e.proved:
		return "the other side has ended the connection: " + e.err.Error()
	case e.heard:
		return "the other side has ended the connection; the secret files may differ: " + e.err.Error()
	}
	return "the other side has ended the connection before it said anything; it may speak another version, or have more connections than it can handle: " + e.err.Error()
}

func (e *cutError) Unwrap() error { return e.err }

func cutOff(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// introduce shakes hands with a launcher, and returns the launcher's greeting and its answer.
func introduce(c net.Conn, s *Secret, label string, mine []byte) (theirs []byte, f frame, err error) {
	_ = c.SetDeadline(time.Now().Add(handshakeTime))
	if theirs, err = Handshake(c, s, label, Initiator, mine); err != nil {
		return nil, f, fmt.Errorf("handshake: %w", err)
	}
	if f, err = readAnswer(c); err == nil && f.kind == jobRefuses {
		err = fmt.Errorf("%w: %s", ErrRefused, f.value)
	}
	_ = c.SetDeadline(time.Time{})
	return theirs, f, err
}

// readAnswer reads the acceptor's first frame after a handshake.
func readAnswer(r io.Reader) (frame, error) {
	f, err := readFrame(r)
	if cutOff(err) {
		err = &cutError{heard: true, proved: true, err: err}
	}
	return f, err
}

// retriesAfterHello is how often a handshake is retried that was cut off after the other side's
// hello. Most likely the proof was wrong. That the lobby has evicted the connection so late is
// rare.
const retriesAfterHello = 4

// retryHandshake calls f, which connects and shakes hands, again while the connection is cut off,
// since the acceptor may have made room for others. It does so for at most the time of a handshake.
func retryHandshake(ctx context.Context, f func() error) error {
	pause := 10 * time.Millisecond
	end := time.Now().Add(handshakeTime)
	for heard := 0; ; {
		err := f()
		off, cut := errors.AsType[*cutError](err)
		if !cut || time.Now().After(end) {
			return err
		}
		if off.heard {
			if heard++; heard > retriesAfterHello {
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

// versionError is the version of the other side, if it is not this side's.
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
			// If a connection is closed with unread data, the kernel may discard data that this
			// side has sent.
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

// Key is known only to the launchers of a job on several machines. It is a file, which a person
// copies to each machine. It may serve many jobs: the secret of a job is made from the key and the
// name of the job, so neither is ever sent.
type Key Secret

// String hides the key from logs.
func (k Key) String() string { return "(key)" }

// GoString hides it likewise.
func (k Key) GoString() string { return k.String() }

// secret returns the secret of a job.
func (k *Key) secret(job string) (s Secret) {
	m := hmac.New(sha256.New, k[:])
	m.Write([]byte("weft secret of job " + job))
	copy(s[:], m.Sum(nil))
	return s
}

// LoadKey reads the key in a file: 64 hexadecimal digits. The file must not be accessible to other
// users. If it does not exist and create is true, LoadKey makes it by way of a temporary file. If
// tell is not nil, LoadKey first calls it with the path of that temporary file.
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

// makeKey writes a key to a file, unless the file exists. The file appears with its whole content:
// a launcher that is killed leaves no empty file.
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
			p.Path = path // the path that the user knows
		}
		return err
	}
	defer os.Remove(temp)
	_, err = f.WriteString(hex.EncodeToString(k[:]) + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(temp, path); err == nil || errors.Is(err, fs.ErrExist) {
		// another launcher has made it
		return nil
	}
	return os.Rename(temp, path) // a file system without links
}
