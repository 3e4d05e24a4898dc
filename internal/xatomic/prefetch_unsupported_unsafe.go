//go:build !amd64

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package xatomic

import "unsafe"

// PrefetchW does nothing on this machine.
func PrefetchW(unsafe.Pointer) {}

// PrefetchW2 does nothing on this machine.
func PrefetchW2(unsafe.Pointer) {}

// PrefetchW3 does nothing on this machine.
func PrefetchW3(unsafe.Pointer) {}

// PrefetchW1st3rd does nothing on this machine.
func PrefetchW1st3rd(unsafe.Pointer) {}
