//go:build !linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shmem

import "os"

// Create fails.
func Create(string, int) (*os.File, error) { return nil, ErrUnsupported }

// Path returns what leads to nothing.
func Path(int, uintptr) string { return "" }

// Open fails.
func Open(string, int) (*os.File, error) { return nil, ErrUnsupported }

// Map fails.
func Map(*os.File, int64, int, bool) ([]byte, error) { return nil, ErrUnsupported }

// Unmap fails.
func Unmap([]byte) error { return ErrUnsupported }

// Sync fails.
func Sync([]byte, int, int) error { return ErrUnsupported }

// Populate does nothing.
func Populate([]byte, int, int) {}
