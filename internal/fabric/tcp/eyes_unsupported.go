//go:build !linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import "time"

// eyes are not used on this system: each connection has a reader and a writer.
func openEyes(*Endpoint) (*eyes, error) { return nil, nil }
func (*eyes) sleeper()                  {}
func (*eyes) end(time.Duration) error   { return nil }

// Enter does nothing: readers look.
func (*Endpoint) Enter() bool { return false }

// Leave does nothing.
func (*Endpoint) Leave() {}

// Look does nothing.
func (*Endpoint) Look(<-chan struct{}, bool) {}

// Poll lets the readers read.
func (*Endpoint) Poll(tries int) bool {
	letRead(tries)
	return false
}

// Crowd says how many ranks share how many processors of this node.
func (*Endpoint) Crowd(int, int) {}
