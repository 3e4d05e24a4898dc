// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package solve

import (
	"errors"

	"weft/comm"
	"weft/deps"
	"weft/examples/heat/internal/grid"
	"weft/rma"
	"weft/tampi"
	"weft/task"
)

// windowHalo is the halo of tampirma. Two neighbours share a communicator, and on it cfg.Wins
// windows. Each window has a part of both sides' ghost rows: an equal number of column blocks.
// Windows of different parts make progress independently.
//
// A transfer is one task at each end. The sender's task opens an epoch, puts its pieces and closes
// the epoch. The receiver's task opens and closes the epoch. Both fences are started at once and
// bound to the task by Iwait. So the puts are queued after the first fence, and no task waits. Per
// step and window there is one transfer in each direction. So both ends make the same four fences
// per step, and in the same order, since all tasks of a window at one end have it as inout.
//
// The epoch between a closing fence and the next opening fence is empty: no rank writes a ghost row
// between its transfer and the next epoch that the receiver itself opens.
type windowHalo struct {
	up, down *edge // nil if there is no neighbour
}

// edge is the boundary to one neighbour.
type edge struct {
	peer  int        // the neighbour's rank in the windows
	ghost int        // row of the grid that the neighbour writes
	own   int        // row of the grid that is put to the neighbour
	parts []*rma.Win // one window per part of the row
	mine  []sentinel // sentinels of the blocks that contain the row own
	halo  []sentinel // sentinels of the ghost row
	send  []func(*task.Task) error
	recv  []func(*task.Task) error
}

// newWindowHalo is collective over c.
func newWindowHalo(c *comm.Comm, g *grid.Grid, wins int) (*windowHalo, error) {
	h := &windowHalo{}
	// First the pairs (0,1), (2,3), ..., then (1,2), (3,4), ...: each rank is in at most one pair
	// of each.
	for odd := range 2 {
		pair, err := c.Split((g.Rank+odd)/2, g.Rank)
		if err != nil {
			return nil, err
		}
		if pair.Size() < 2 {
			continue
		}
		e := &edge{peer: 1 - pair.Rank()}
		if pair.Rank() == 0 { // the neighbour is below
			e.own, e.ghost = g.RankRows(), g.RankRows()+1
			h.down = e
		} else {
			e.own, e.ghost = 1, 0
			h.up = e
		}
		n := g.Cols / wins
		for i := range wins {
			win, err := rma.Create(pair, g.Row(e.ghost, 1+i*n, n))
			if err != nil {
				return nil, err
			}
			e.parts = append(e.parts, win)
		}
	}
	return h, nil
}

// free is collective. Each rank frees the windows shared with the rank above first. So rank 0
// begins, and the ranks follow in order.
func (h *windowHalo) free() error {
	var errs []error
	for _, e := range []*edge{h.up, h.down} {
		if e == nil {
			continue
		}
		for _, w := range e.parts {
			errs = append(errs, w.Free())
		}
	}
	return errors.Join(errs...)
}

func (h *windowHalo) beforeFirstRow(w *sweep) {
	if h.up == nil {
		return
	}
	h.up.prepare(w, 1, 0)
	h.up.spawnSend(w, "put up")
	h.up.spawnRecv(w, "epoch from above")
}

func (h *windowHalo) beforeLastRow(w *sweep) {
	if h.down == nil {
		return
	}
	n := w.grid.BlockRows()
	h.down.prepare(w, n, n+1)
	h.down.spawnRecv(w, "epoch from below")
}

func (h *windowHalo) afterLastRow(w *sweep) {
	if h.down != nil {
		h.down.spawnSend(w, "put down")
	}
}

// prepare creates the bodies for a run with the sentinels of w, unless they exist.
func (e *edge) prepare(w *sweep, mine, halo int) {
	if len(e.mine) > 0 && &e.mine[0] == &w.reps[mine][0] {
		return
	}
	e.mine, e.halo = w.reps[mine], w.reps[halo]
	e.send, e.recv = nil, nil
	per := len(e.mine) / len(e.parts)
	for i, win := range e.parts {
		e.recv = append(e.recv, func(t *task.Task) error {
			return tampi.IwaitAll(t, win.Ifence(0), win.Ifence(0))
		})
		e.send = append(e.send, func(t *task.Task) error {
			opened := win.Ifence(0)
			for c := range per {
				piece := w.grid.Row(e.own, 1+(i*per+c)*w.grid.ColBlock, w.grid.ColBlock)
				if err := win.Put(comm.Of(piece), e.peer, c*w.grid.ColBlock); err != nil {
					return err
				}
			}
			return tampi.IwaitAll(t, opened, win.Ifence(0))
		})
	}
}

// spawnSend spawns a task per part, which reads the blocks with the row own.
func (e *edge) spawnSend(w *sweep, label string) {
	e.spawn(w, label, e.send, e.mine, deps.In[sentinel])
}

// spawnRecv spawns a task per part, which overwrites the ghost row.
func (e *edge) spawnRecv(w *sweep, label string) {
	e.spawn(w, label, e.recv, e.halo, deps.Out[sentinel])
}

func (e *edge) spawn(w *sweep, label string, bodies []func(*task.Task) error, row []sentinel, mode func(*sentinel) deps.Access) {
	per := len(row) / len(e.parts)
	for i, win := range e.parts {
		a := append(w.accs[:0], deps.InOut(win))
		for c := range per {
			a = append(a, mode(&row[i*per+c]))
		}
		w.accs = a
		w.spawn(label, bodies[i], a...)
	}
}
