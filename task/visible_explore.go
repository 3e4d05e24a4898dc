//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import "weft/internal/xatomic"

// visibleMutex is a lock whose steps an explorer sees.
type visibleMutex = xatomic.Mutex
