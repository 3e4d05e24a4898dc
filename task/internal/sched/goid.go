// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package sched

// Goid returns a word that identifies the calling goroutine while it lives: the address of the Go
// runtime's record of the goroutine. The word is only compared.
func Goid() uintptr
