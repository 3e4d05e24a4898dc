//go:build !amd64

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package vec

// start does a first part with vector instructions, and returns how much.
func start[T Number](operation, []T, []T, []T) int { return 0 }
