// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package sched

// Goid returns a word that identifies the calling goroutine while it lives. It
// is the address of the runtime's record of it, and is only ever compared.
func Goid() uintptr
