// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

// surviveClosedPipe does nothing: there is no such signal here.
func surviveClosedPipe() (stop func()) { return func() {} }
