//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import "sync"

// visibleMutex is a lock that the race detector sees in lint mode, too: who registers a callback
// comes before it. An explorer sees its steps.
type visibleMutex = sync.Mutex
