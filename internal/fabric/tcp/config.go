// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"weft/internal/env"
	"weft/internal/fabric"
)

// Limits and times.
const (
	// EagerLimit is the advice of this fabric in bytes (a guess: below it a round trip costs more
	// than a copy).
	EagerLimit = 64 << 10
	// MaxFrame is the largest payload of a frame in bytes. Larger messages are cut, so that frames
	// of others get between.
	MaxFrame = 256 << 10
	// nearPiece and farPiece are the largest pieces of a transfer, within the machine and beyond:
	// what waits behind one is not to wait for longer than some tenths of a millisecond, on a link
	// of ten gigabits a second. Each piece ends in a packet that is not full, and begins with a
	// head that is read by itself; messages of 1 MiB took a quarter less time in one piece than in
	// four, within the machine.
	nearPiece     = 1 << 20
	farPiece      = 256 << 10
	maxPiece      = nearPiece // that is taken
	defaultDial   = 10 * time.Second
	defaultLinger = 2 * time.Second
	// failedLinger is for the frames that say why the run has failed: what is queued has to be
	// written, and peers that look have to have read it. A guess.
	failedLinger = 100 * time.Millisecond
	minSecret    = 16
	// before the first time that a connection is tried again; it doubles
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
	// tryTime bounds the attempt at one of several addresses, so that one which leads nowhere does
	// not take all the time there is.
	tryTime = 2 * time.Second
)

// Config says what an endpoint needs to know.
type Config struct {
	Rank, Size int
	// Secret is known to the processes of the job and to nobody else; at least 16 bytes.
	Secret []byte
	// Lookup returns the addresses at which a rank listens, with commas between, waiting until they
	// are known.
	Lookup func(ctx context.Context, rank int) (string, error)
	// Listen is the address to listen at. Empty: a free port, of the loopback interface unless one
	// of the next two says otherwise.
	Listen string
	// Everywhere listens at all interfaces: there are ranks on other machines.
	Everywhere bool
	// Networks are those of this machine's networks to listen at, each the name of an interface, an
	// address, or a prefix such as 10.1.0.0/16, with commas between; each of them must be here.
	// Empty: all that Everywhere means.
	Networks string
	// Serves says with which ranks there are connections; nil: all. It is asked after Bind.
	Serves func(rank int) bool
	// Retry is how often a connection is tried again, all of a rank's addresses each time, within
	// DialTimeout. 0: not at all.
	Retry int
	// TLS, if not nil, wraps every connection. It is used for both sides, so it needs a
	// certificate, and a way to check the peer's.
	TLS *tls.Config
	// DialTimeout bounds how long a connection may take to be made and proved. 0: 10 s.
	DialTimeout time.Duration
	// DeadAfter bounds how long a machine that has vanished goes unnoticed, where there is a
	// connection with it. 0: env.DefaultDeadAfter.
	DeadAfter time.Duration
	// Linger bounds how long Close tries to write what is queued, and waits for the peers to close.
	// 0: 2 s.
	Linger time.Duration
	// Failed, if not nil, is true when the run has failed: then Close waits for a moment only. A
	// peer that computes closes its end when it likes.
	Failed *atomic.Bool
}

func (c *Config) check() error {
	switch {
	case c.Size < 1 || uint(c.Rank) >= uint(c.Size):
		return fmt.Errorf("%w: rank %d of %d", fabric.ErrRank, c.Rank, c.Size)
	case len(c.Secret) < minSecret:
		return fmt.Errorf("tcp: the secret of the job has %d bytes; at least %d are needed", len(c.Secret), minSecret)
	case c.Lookup == nil && c.Size > 1:
		return fmt.Errorf("tcp: Config.Lookup is nil")
	}
	c.DialTimeout = cmp.Or(c.DialTimeout, defaultDial)
	c.Linger = cmp.Or(c.Linger, defaultLinger)
	return nil
}

// ErrTLS: the files of TLS are not all named, or are of no use. No connection is made.
var ErrTLS = errors.New("bad TLS settings")

// TLSFromEnvironment returns how connections are encrypted, nil if they are not. Both sides have to
// have a certificate that one of WEFT_TLS_CA has signed; names in it do not matter, since a rank
// may be at any address and proves the job's secret besides.
func TLSFromEnvironment() (*tls.Config, error) {
	cert, key, ca := env.TLSCert.Text(), env.TLSKey.Text(), env.TLSCA.Text()
	switch {
	case cert == "" && key == "" && ca == "":
		return nil, nil
	case cert == "" || key == "" || ca == "":
		return nil, fmt.Errorf("%w: %s=%q, %s=%q, %s=%q; it takes all three files, or none", ErrTLS, env.TLSCert.Name, cert, env.TLSKey.Name, key, env.TLSCA.Name, ca)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%w: %s=%q, %s=%q: %w", ErrTLS, env.TLSCert.Name, cert, env.TLSKey.Name, key, err)
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrTLS, env.TLSCA.Name, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%w: %s=%q: there is no certificate in it", ErrTLS, env.TLSCA.Name, ca)
	}
	verify := func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the peer has no certificate")
		}
		between := x509.NewCertPool()
		for _, c := range s.PeerCertificates[1:] {
			between.AddCert(c)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		return err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // of names; verify does the rest, on both sides
		VerifyConnection:   verify,
	}, nil
}

// isNear reports whether a connection does not leave the machine: it goes to the address that it
// comes from, or within the loopback interface.
func isNear(c net.Conn) bool {
	here, ok := c.LocalAddr().(*net.TCPAddr)
	there, too := c.RemoteAddr().(*net.TCPAddr)
	return ok && too && (here.IP.Equal(there.IP) || here.IP.IsLoopback() && there.IP.IsLoopback())
}

func init() {
	check := func(string) error {
		_, err := TLSFromEnvironment()
		return err
	}
	env.TLSCert.Check, env.TLSKey.Check, env.TLSCA.Check = check, check, check
}
