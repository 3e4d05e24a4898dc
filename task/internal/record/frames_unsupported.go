//go:build !amd64

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package record

// frames returns -1: on this machine the stack is not walked by frame pointers.
func frames(*uintptr, int, uintptr, uintptr) int { return -1 }
