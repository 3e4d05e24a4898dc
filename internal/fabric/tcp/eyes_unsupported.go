//go:build !linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import "time"

// eyes are not used on this system: each connection has a reader and a writer.
type eyes struct{}

func openEyes(*Endpoint) (*eyes, error) { return nil, nil }

func (*eyes) sleeper()                {}
func (*eyes) call()                   {}
func (*eyes) end(time.Duration) error { return nil }

// Crowd says how many ranks share how many processors of this node.
func (*Endpoint) Crowd(int, int) {}
