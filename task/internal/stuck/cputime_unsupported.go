// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package stuck

import "time"

// processorTime is not known on this system.
func processorTime() (used time.Duration, known bool) { return 0, false }
