// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package wake

import (
	"context"

	"weft/bench/internal/harness"
)

func futex(context.Context, *ping) error { return harness.Skip("only Linux has this system call") }

func syscall(context.Context, *ping) error { return harness.Skip("only Linux has this system call") }
