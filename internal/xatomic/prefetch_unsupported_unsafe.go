//go:build !amd64

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package xatomic

import "unsafe"

// PrefetchW does nothing on this machine.
func PrefetchW(unsafe.Pointer) {}

// PrefetchW2 does nothing on this machine.
func PrefetchW2(unsafe.Pointer) {}

// PrefetchW4 does nothing on this machine.
func PrefetchW4(unsafe.Pointer) {}
