//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package callback

const depthLimit = 1 // small, so that what is behind it is soon reached

func stripe(int) int { return 0 }
