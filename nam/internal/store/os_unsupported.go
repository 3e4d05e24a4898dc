// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package store

import (
	"io/fs"
	"os"
)

// Only Linux has stores. On other systems Open returns an error before it reaches any of these.

const openSafely = 0

func notRegular(error) bool                    { return false }
func bootID() (ID, bool)                       { return ID{}, false }
func hasData(*os.File) (bool, error)           { return true, ErrUnsupported }
func tryLock(*os.File, bool) (bool, error)     { return false, ErrUnsupported }
func identityOf(*os.File) ([2]uint64, error)   { return [2]uint64{}, ErrUnsupported }
func identityOfDir(string) ([2]uint64, error)  { return [2]uint64{}, ErrUnsupported }
func unlock(*os.File) error                    { return ErrUnsupported }
func reserve(*os.File, uint64) error           { return ErrUnsupported }
func lockRange(*os.File, int64, int64) error   { return ErrUnsupported }
func unlockRange(*os.File, int64, int64) error { return ErrUnsupported }
func reserveMeta(*os.File)                     {}

// Owner returns the user that a file belongs to, if it is known.
func Owner(fs.FileInfo) (uid uint32, ok bool) { return 0, false }
