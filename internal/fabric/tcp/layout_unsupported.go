//go:build !linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import "weft/internal/fabric"

type eyes struct{ fabric.NoSource }

func (*eyes) call() {}

type socket struct{ dead, full bool }
