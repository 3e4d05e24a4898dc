// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Errors of a store. Package nam exports them under the same names.
var (
	ErrExist       = errors.New("name is in use")
	ErrName        = errors.New("no such window")
	ErrNoSpace     = errors.New("no space")
	ErrAccess      = errors.New("permission denied")
	ErrCorrupt     = errors.New("store is damaged")
	ErrVersion     = errors.New("unknown layout version")
	ErrBusy        = errors.New("store is locked by another process")
	ErrClosed      = errors.New("store is closed")
	ErrSize        = errors.New("illegal size")
	ErrUnsupported = errors.New("not supported here")
	ErrLost        = errors.New("network-attached memory is lost")
	ErrUnsynced    = errors.New("the machine has stopped before the window was on the disk")
)

// ErrGone is ErrLost for a file that is missing, too short, or not a regular file. It matches
// ErrCorrupt as well: the store's files are damaged, and with them the memory is lost.
var ErrGone error = goneError{}

type goneError struct{}

func (goneError) Error() string        { return ErrLost.Error() }
func (goneError) Is(target error) bool { return target == ErrLost || target == ErrCorrupt }

// spaceError returns ErrNoSpace for a full disk. action says what failed.
func spaceError(err error, action string) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("%w: %s on disk: %w", ErrNoSpace, action, err)
	}
	return fmt.Errorf("%s on disk: %w", action, err)
}

// accessError returns ErrAccess for missing rights.
func accessError(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w: %w", ErrAccess, err)
	}
	return err
}
