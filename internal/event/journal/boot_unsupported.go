//go:build !linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package journal

// bootID returns an empty string: clocks of several processes are then compared by the time of day.
func bootID() string { return "" }
