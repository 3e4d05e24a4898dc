//go:build race

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package race

// Detector reports whether the race detector looks.
const Detector = true
