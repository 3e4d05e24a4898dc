//go:build !linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

type eyes struct{}

func (*eyes) call() {}

type socket struct{ dead, full bool }
