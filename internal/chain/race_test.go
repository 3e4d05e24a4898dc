//go:build race

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

func init() { // the race detector is slow
	chainLength /= 10
	rangePrograms /= 5
	objectPrograms /= 5
}
