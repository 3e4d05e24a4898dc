// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package bind

// Supported is whether processes can be bound on this platform.
const Supported = false

// Here returns ErrUnsupported.
func Here() (*Machine, error) { return nil, ErrUnsupported }

// Allowed returns ErrUnsupported.
func Allowed() (Set, error) { return nil, ErrUnsupported }

// Thread returns ErrUnsupported.
func Thread(Set) (restore func() error, err error) { return nil, ErrUnsupported }
