//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

// touched, if it is set, is told of each touch.
var touched func(word any)

func (a *access) touch() {
	if touched != nil {
		touched(&a.state)
	}
}
