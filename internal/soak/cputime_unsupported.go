// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package soak

import "time"

// processorTime is not known here: no round takes longer than another.
func processorTime() time.Duration { return 0 }
