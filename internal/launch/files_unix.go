// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package launch

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// private reports whether a file belongs to this user and no other user can access it.
func private(st fs.FileInfo) bool {
	own, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(own.Uid) == os.Geteuid() && st.Mode().Perm()&0o077 == 0
}

func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
