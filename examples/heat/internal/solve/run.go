// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package solve

import (
	"weft/examples/heat/internal/conf"
	"weft/tampi"
	"weft/task"
)

// runBlocking is the variant mpi.
func (s *Solver) runBlocking(p Plan) error {
	if p.Save != nil {
		if err := p.Save.Blocking(s.cfg.Grid); err != nil {
			return err
		}
	}
	return p.segments(func(steps int, save bool) error {
		for range steps {
			if err := s.blockingStep(); err != nil {
				return err
			}
			if p.Progress != nil && s.cfg.Grid.Last() {
				p.Progress()
			}
		}
		if save {
			return p.Save.Blocking(s.cfg.Grid)
		}
		return nil
	})
}

// Run makes the steps of the plan. It returns when this rank has made them and its snapshots are
// complete.
func (s *Solver) Run(p Plan) error {
	if s.cfg.Variant == conf.MPI {
		return s.runBlocking(p)
	}
	return s.runTasks(p)
}

// runTasks is the variants itampi and tampirma.
func (s *Solver) runTasks(p Plan) error {
	return tampi.Run(s.cfg.Runtime, s.cfg.Comm, func(t *task.Task) error {
		w := newSweep(t, s, p.Progress)
		if p.Save != nil {
			p.Save.spawn(w)
		}
		err := p.segments(func(steps int, save bool) error {
			if err := w.steps(steps); err != nil {
				return err
			}
			if save {
				p.Save.spawn(w)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return t.Wait() // the only one
	})
}

func newSweep(t *task.Task, s *Solver, progress func()) *sweep {
	g := s.cfg.Grid
	w := &sweep{t: t, grid: g, kernel: s.cfg.Kernel, halo: s.halo, progress: progress}
	if w.ordered = wantsOrder(g); w.ordered {
		w.priority = soonest - 1
	}
	w.reps = make([][]sentinel, g.BlockRows()+2)
	for r := range w.reps {
		w.reps[r] = make([]sentinel, g.BlockCols())
	}
	w.block = make([][]func(*task.Task) error, g.BlockRows())
	for r := range w.block {
		w.block[r] = make([]func(*task.Task) error, g.BlockCols())
		for c := range w.block[r] {
			w.block[r][c] = w.blockBody(r, c)
		}
	}
	return w
}
