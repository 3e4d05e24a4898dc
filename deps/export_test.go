// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

import "weft/internal/chain"

// Engine returns the engine's form of a.
func Engine(a Access) chain.Access { return a.a }

// Reduced returns the reduction of a; nil if it is none.
func (a Access) Reduced() *chain.Reduced { return a.a.Reduced() }

// Private returns the value of c, a copy that was made for r.
func Private[P any](_ Reducer[P], c *chain.Copy) P { return c.Value().(P) }
