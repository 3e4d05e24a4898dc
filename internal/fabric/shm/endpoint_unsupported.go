//go:build !linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"fmt"
	"runtime"

	"weft/internal/fabric"
)

// Endpoint cannot be made on this system.
type Endpoint struct{ fabric.Endpoint }

// New returns ErrUnsupported on this system.
func New(cfg Config) (*Endpoint, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: shm works on Linux, and this is %s", fabric.ErrUnsupported, runtime.GOOS)
}

// Addr returns the empty string.
func (*Endpoint) Addr() string { return "" }
