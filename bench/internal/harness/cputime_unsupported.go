//go:build !unix

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"time"
)

// ProcessorTime is not known here.
func ProcessorTime() (time.Duration, error) {
	return 0, fmt.Errorf("the processor time of a process: %w", ErrSkipped)
}
