// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package task

// underRace says that the race detector is on, which makes everything ten times slower.
const underRace = true
