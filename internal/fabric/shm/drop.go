//go:build linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

// Drop ends everything with a peer, which the layer above knows to be lost. Its memory stays mapped until the endpoint is closed: somebody may be
// looking at it.
func (e *Endpoint) Drop(peer int, err error) {
	if uint(peer) < uint(len(e.peers)) && peer != e.cfg.Rank && e.bound.Load() && !e.closed.Load() {
		e.peers[peer].lose(err)
		e.bell.ring() // whatever the look word says: package comment, "Loss"
	}
}

// Beside has somebody else's messages looked for, now and then, by who looks here.
func (e *Endpoint) Beside(poll func() bool) { e.aside = poll }
