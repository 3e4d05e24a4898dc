//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package callback

const depthLimit = 1 // small, so that the exploration exceeds it

func stripe(int) int { return 0 }
