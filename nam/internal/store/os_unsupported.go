// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package store

import (
	"io/fs"
	"os"
)

// Elsewhere than on Linux a store cannot be opened; Open says so before any of these is reached.

const openSafely = 0

func notRegular(error) bool                    { return false }
func bootID() (ID, bool)                       { return ID{}, false }
func hasData(*os.File) (bool, error)           { return true, ErrUnsupported }
func tryLock(*os.File, bool) (bool, error)     { return false, ErrUnsupported }
func placeOf(*os.File) ([2]uint64, error)      { return [2]uint64{}, ErrUnsupported }
func placeOfDir(string) ([2]uint64, error)     { return [2]uint64{}, ErrUnsupported }
func unlock(*os.File) error                    { return ErrUnsupported }
func reserve(*os.File, uint64) error           { return ErrUnsupported }
func lockRange(*os.File, int64, int64) error   { return ErrUnsupported }
func unlockRange(*os.File, int64, int64) error { return ErrUnsupported }
func reserveMeta(*os.File)                     {}

// Owner is the user that a file belongs to, where that is known.
func Owner(fs.FileInfo) (uid uint32, ok bool) { return 0, false }
