//go:build linux && !race

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import "unsafe"

func told(unsafe.Pointer, int)  {}
func heard(unsafe.Pointer, int) {}
