// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package launch

import "io/fs"

// private returns true: this system has no such modes.
func private(st fs.FileInfo) bool { return true }

func refused(error) bool { return false }
