//go:build !linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"time"

	"weft/internal/fabric"
)

type eyes struct{ fabric.NoSource }

type socket struct{ dead, full bool }

// eyes are not used on this system: each connection has a reader and a writer.
func openEyes(*Endpoint) (*eyes, error) { return nil, nil }
func (*eyes) sleeper()                  {}
func (*eyes) end(time.Duration) error   { return nil }
