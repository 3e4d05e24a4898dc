// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package solve

import (
	"weft/comm"
	"weft/deps"
	"weft/tampi"
	"weft/task"
)

// messageHalo is the halo of itampi: one message per column block and direction, with the column
// block as tag. The messages of one column block and direction keep their order, since the
// sentinels order the tasks that send them and the tasks that receive them. Messages of the two
// neighbours match by their senders.
type messageHalo struct {
	comm *comm.Comm
	// One body per column block, created at the first use.
	sendUp, recvUp, recvDown, sendDown []func(*task.Task) error
}

func (h *messageHalo) free() error { return nil }

func (h *messageHalo) beforeFirstRow(w *sweep) {
	if w.grid.First() {
		return
	}
	if h.sendUp == nil {
		h.sendUp = h.bodies(w, 1, w.grid.Rank-1, h.comm.Isend)
		h.recvUp = h.bodies(w, 0, w.grid.Rank-1, h.comm.Irecv)
	}
	for c := range w.grid.BlockCols() {
		w.spawn("send up", h.sendUp[c], deps.In(&w.reps[1][c]))
	}
	for c := range w.grid.BlockCols() {
		w.spawn("recv from above", h.recvUp[c], deps.Out(&w.reps[0][c]))
	}
}

func (h *messageHalo) beforeLastRow(w *sweep) {
	if w.grid.Last() {
		return
	}
	if h.recvDown == nil {
		n := w.grid.RankRows()
		h.recvDown = h.bodies(w, n+1, w.grid.Rank+1, h.comm.Irecv)
		h.sendDown = h.bodies(w, n, w.grid.Rank+1, h.comm.Isend)
	}
	ghost := w.reps[len(w.reps)-1]
	for c := range ghost {
		w.spawn("recv from below", h.recvDown[c], deps.Out(&ghost[c]))
	}
}

func (h *messageHalo) afterLastRow(w *sweep) {
	if w.grid.Last() {
		return
	}
	row := w.reps[len(w.reps)-2]
	for c := range row {
		w.spawn("send down", h.sendDown[c], deps.In(&row[c]))
	}
}

// bodies returns the bodies that send or receive the pieces of a row, one per column block.
func (h *messageHalo) bodies(w *sweep, row, peer int, start func(comm.Buffer, int, int) *comm.Request) []func(*task.Task) error {
	b := make([]func(*task.Task) error, w.grid.BlockCols())
	for c := range b {
		piece := comm.Of(w.grid.Row(row, 1+c*w.grid.ColBlock, w.grid.ColBlock))
		b[c] = func(t *task.Task) error { return tampi.Iwait(t, start(piece, peer, c)) }
	}
	return b
}
