//go:build !race

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package race

// Detector reports whether the program is built with the race detector.
const Detector = false
