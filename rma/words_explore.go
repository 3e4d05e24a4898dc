//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import "weft/internal/xatomic"

type (
	bit    = xatomic.Bool
	word32 = xatomic.Uint32
	word64 = xatomic.Uint64
	mutex  = xatomic.Mutex
)
