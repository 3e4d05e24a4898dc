//go:build !amd64

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package vec

// start combines no elements: there are no vector instructions here.
func start[T Number](operation, []T, []T, []T) int { return 0 }
