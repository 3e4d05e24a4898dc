//go:build !linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shmem

import "os"

// Create returns ErrUnsupported.
func Create(string, int) (*os.File, error) { return nil, ErrUnsupported }

// Path returns the empty string.
func Path(int, uintptr) string { return "" }

// Open returns ErrUnsupported.
func Open(string, int) (*os.File, error) { return nil, ErrUnsupported }

// Map returns ErrUnsupported.
func Map(*os.File, int64, int, bool) ([]byte, error) { return nil, ErrUnsupported }

// Unmap returns ErrUnsupported.
func Unmap([]byte) error { return ErrUnsupported }

// Sync returns ErrUnsupported.
func Sync([]byte, int, int) error { return ErrUnsupported }

// Populate does nothing.
func Populate([]byte, int, int) {}
