//go:build race

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

func init() { cyclePrograms /= 10 } // the race detector is slow
