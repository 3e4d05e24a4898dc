// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package solve

import (
	"fmt"

	"weft/comm"
	"weft/examples/heat/internal/conf"
	"weft/examples/heat/internal/grid"
	"weft/examples/heat/internal/kernel"
	"weft/task"
)

// Config configures a Solver.
type Config struct {
	Comm    *comm.Comm    // all ranks of the grid's layout
	Runtime *task.Runtime // shared by the ranks of the process; not needed by mpi
	Grid    *grid.Grid
	Kernel  kernel.Func
	Variant string
	Wins    int // windows per halo, tampirma only
}

// Solver makes time steps on one rank.
type Solver struct {
	cfg  Config
	halo halo // of the task variants
}

// halo exchanges the edge rows with the neighbours. Its methods spawn tasks. Each is called once
// per step, at the point in the order of creation that its name says.
type halo interface {
	beforeFirstRow(s *sweep)
	beforeLastRow(s *sweep)
	afterLastRow(s *sweep)
	free() error
}

// New makes a solver. It is collective.
func New(cfg Config) (*Solver, error) {
	s := &Solver{cfg: cfg}
	switch cfg.Variant {
	case conf.MPI:
	case conf.ITAMPI:
		s.halo = &messageHalo{comm: cfg.Comm}
	case conf.TAMPIRMA:
		h, err := newWindowHalo(cfg.Comm, cfg.Grid, cfg.Wins)
		if err != nil {
			return nil, err
		}
		s.halo = h
	default:
		return nil, fmt.Errorf("unknown variant %q: choose one of %v", cfg.Variant, conf.Variants)
	}
	return s, nil
}

// Free releases the windows that New made. It is collective.
func (s *Solver) Free() error {
	if s.halo == nil {
		return nil
	}
	return s.halo.free()
}

// Plan is the work of Run.
type Plan struct {
	Steps    int
	Freq     int       // steps from one snapshot to the next
	Save     *Snapshot // nil: no snapshots
	Progress func()    // called once per step, by any goroutine; nil: not called
}

// segments splits the steps at the snapshots: it calls f with the number of steps to make, and
// whether a snapshot follows.
func (p *Plan) segments(f func(steps int, save bool) error) error {
	if p.Save == nil {
		return f(p.Steps, false)
	}
	for left := p.Steps; left > 0; {
		n := min(left, p.Freq)
		left -= n
		if err := f(n, n == p.Freq); err != nil {
			return err
		}
	}
	return nil
}
