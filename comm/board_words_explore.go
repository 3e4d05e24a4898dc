//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import "weft/internal/xatomic"

// Bounds are small, so that what is behind them is soon reached.
const (
	boardPast   = 1
	stageWindow = 16
	stageElem   = 8
)

// token is there or not.
type token struct {
	some *xatomic.Bool
	ch   xatomic.Chan[struct{}]
}

func newToken() token { return token{new(xatomic.Bool), make(xatomic.Chan[struct{}], 1)} }

func (t token) put() {
	if !t.some.Swap(true) {
		t.ch.Send(struct{}{})
	}
}

// take: who puts it between the two steps finds that it is there, and who takes it looks afterwards for what that one has done.
func (t token) take() {
	t.ch.Recv()
	t.some.Store(false)
}
