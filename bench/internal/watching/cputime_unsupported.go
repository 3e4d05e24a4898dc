//go:build !unix

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package watching

import (
	"fmt"
	"time"

	"weft/bench/internal/harness"
)

func processorTime() (time.Duration, error) {
	return 0, fmt.Errorf("the processor time of a process: %w", harness.ErrSkipped)
}
