// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync/atomic"
	"time"

	"weft/internal/fabric"
)

// Limits and times.
const (
	// EagerLimit is the advice of this fabric in bytes (a guess: below it a round trip costs more than a copy).
	EagerLimit = 64 << 10
	// MaxFrame is the largest payload of a frame in bytes. Larger messages are cut, so that frames of others get between.
	MaxFrame = 256 << 10
	// nearPiece and farPiece are the largest pieces of a transfer, within the machine and beyond: what waits behind one is not to wait for longer than some
	// tenths of a millisecond, on a link of ten gigabits a second. Each piece ends in a packet that is not full, and begins with a head that is read
	// by itself; messages of 1 MiB took a quarter less time in one piece than in four, within the machine.
	nearPiece     = 1 << 20
	farPiece      = 256 << 10
	maxPiece      = nearPiece // that is taken
	defaultDial   = 10 * time.Second
	defaultLinger = 2 * time.Second
	// failedLinger is for the frames that say why the run has failed: what is queued has to be written, and peers that look have to have read it. A guess.
	failedLinger = 100 * time.Millisecond
	minSecret    = 16
	// DefaultRetry is ParaStation MPI's.
	DefaultRetry = 10
	firstPause   = 10 * time.Millisecond // before the first time that a connection is tried again; it doubles
	lastPause    = time.Second
	// tryTime bounds the attempt at one of several addresses, so that one which leads nowhere does not take all the time there is.
	tryTime = 2 * time.Second
)

// Config says what an endpoint needs to know.
type Config struct {
	Rank, Size int
	// Secret is known to the processes of the job and to nobody else; at least 16 bytes.
	Secret []byte
	// Lookup returns the addresses at which a rank listens, with commas between, waiting until they are known.
	Lookup func(ctx context.Context, rank int) (string, error)
	// Listen is the address to listen at. Empty: a free port, of the loopback interface unless one of the next two says otherwise.
	Listen string
	// Everywhere listens at all interfaces: there are ranks on other machines.
	Everywhere bool
	// Networks are those of this machine's networks to listen at; see CheckNetworks. Empty: all that Everywhere means.
	Networks string
	// Serves says with which ranks there are connections; nil: all. It is asked after Bind.
	Serves func(rank int) bool
	// Retry is how often a connection is tried again, all of a rank's addresses each time, within DialTimeout. 0: not at all.
	Retry int
	// TLS, if not nil, wraps every connection. It is used for both sides, so it needs a certificate, and a way to check the peer's.
	TLS *tls.Config
	// DialTimeout bounds how long a connection may take to be made and proved. 0: 10 s.
	DialTimeout time.Duration
	// DeadAfter bounds how long a machine that has vanished goes unnoticed, where there is a connection with it. 0: vigil.Default.
	DeadAfter time.Duration
	// Linger bounds how long Close tries to write what is queued, and waits for the peers to close. 0: 2 s.
	Linger time.Duration
	// Failed, if not nil, is true when the run has failed: then Close waits for a moment only. A peer that computes closes its end when it likes.
	Failed *atomic.Bool
	// Hold, if not nil, keeps the endpoint's own goroutine from looking until it is closed, so that only calls that look or
	// poll read what comes. For tests.
	Hold <-chan struct{}
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
	if c.DialTimeout == 0 {
		c.DialTimeout = defaultDial
	}
	if c.Linger == 0 {
		c.Linger = defaultLinger
	}
	return nil
}
