// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import "weft/internal/xatomic"

// touched, if it is set, is told of each touch.
var touched func(word any)

// touch stands where an access is used after an operation on its state, which may have been the last that the access is
// sure to outlive. It is for the explorer, and nothing without.
func (a *access) touch() {
	if xatomic.Explored && touched != nil {
		touched(&a.state)
	}
}
