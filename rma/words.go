//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"sync"
	"sync/atomic"
)

// The words and the lock of a window. In builds for exploration they are those of package xatomic.
type (
	bit    = atomic.Bool
	word32 = atomic.Uint32
	word64 = atomic.Uint64
	mutex  = sync.Mutex
)
