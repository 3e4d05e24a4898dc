//go:build !linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package progress

import "runtime"

// yield gives the processor to others, as far as Go knows of them.
func yield() { runtime.Gosched() }
