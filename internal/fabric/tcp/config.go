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
	// EagerLimit is this fabric's Caps.EagerLimit, in bytes (a guess: below it, a round trip costs
	// more than a copy).
	EagerLimit = 64 << 10
	// MaxFrame is the largest payload of a frame in bytes. Larger messages are cut, so that other
	// frames can be sent in between.
	MaxFrame = 256 << 10
	// nearPiece and farPiece are the largest pieces of a transfer, in bytes, within the machine and
	// beyond. A frame that waits for a piece should not wait for longer than some tenths of a
	// millisecond, on a link of ten gigabits a second. Each piece ends in a packet that is not
	// full, and begins with a head that is read by itself: within the machine, messages of 1 MiB
	// took a quarter less time in one piece than in four.
	nearPiece     = 1 << 20
	farPiece      = 256 << 10
	maxPiece      = nearPiece // larger pieces are refused
	defaultDial   = 10 * time.Second
	defaultLinger = 2 * time.Second
	// failedLinger replaces Config.Linger when the run has failed. It is the time for queued
	// frames, which say why, to be written, and to be read by peers that poll. A guess.
	failedLinger = 100 * time.Millisecond
	minSecret    = 16
	// the pause before the first retry of a connection; it doubles up to lastPause
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
	// tryTime bounds the attempt at one of several addresses, so that an address which leads
	// nowhere does not use up DialTimeout.
	tryTime = 2 * time.Second
)

// Config configures an endpoint.
type Config struct {
	Rank, Size int
	// Secret is known to the processes of the job only; at least 16 bytes.
	Secret []byte
	// Lookup returns the addresses at which a rank listens, separated by commas. It waits until
	// they are known.
	Lookup func(ctx context.Context, rank int) (string, error)
	// Listen is the address to listen at. Empty: a free port, of the loopback interface unless one
	// of the next two says otherwise.
	Listen string
	// Everywhere listens at all interfaces: there are ranks on other machines.
	Everywhere bool
	// Networks lists the networks of this machine at which to listen, separated by commas. Each is
	// the name of an interface, an address, or a prefix such as 10.1.0.0/16. This machine must be
	// in each of them. Empty: as Everywhere says.
	Networks string
	// Serves reports whether this fabric connects with a rank; nil: with all. It is called after
	// Bind.
	Serves func(rank int) bool
	// Retry is the number of times that a connection is tried again, with all addresses of the rank
	// each time, within DialTimeout. 0: none.
	Retry int
	// TLS, if not nil, wraps every connection. It is used for both sides, so it needs a certificate
	// and a way to check the peer's.
	TLS *tls.Config
	// DialTimeout bounds how long a connection may take to be made and proved. 0: 10 s.
	DialTimeout time.Duration
	// DeadAfter bounds the time until a machine that has vanished is detected, if there is a
	// connection with it. 0: env.DefaultDeadAfter.
	DeadAfter time.Duration
	// Linger bounds how long Close writes queued frames and waits for the peers to close. 0: 2 s.
	Linger time.Duration
	// Failed, if not nil, is true when the run has failed. Close then waits for at most
	// failedLinger, since a peer that computes may close its end late.
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

// ErrTLS: not all files for TLS are named, or a file is unusable. No connection is made.
var ErrTLS = errors.New("bad TLS settings")

// TLSFromEnvironment returns the TLS configuration of connections, or nil if they are not
// encrypted. Both sides need a certificate that an authority of WEFT_TLS_CA has signed. The names
// in the certificate do not matter: a rank may be at any address, and also proves that it knows the
// job's secret.
func TLSFromEnvironment() (*tls.Config, error) {
	cert, key, ca := env.TLSCert.Text(), env.TLSKey.Text(), env.TLSCA.Text()
	switch {
	case cert == "" && key == "" && ca == "":
		return nil, nil
	case cert == "" || key == "" || ca == "":
		return nil, fmt.Errorf("%w: %s=%q, %s=%q, %s=%q; set all three files, or none", ErrTLS, env.TLSCert.Name, cert, env.TLSKey.Name, key, env.TLSCA.Name, ca)
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
		InsecureSkipVerify: true, // names are not checked; verify checks the rest, on both sides
		VerifyConnection:   verify,
	}, nil
}

// isNear reports whether a connection stays within the machine: both ends have the same address, or
// both are of the loopback interface.
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
