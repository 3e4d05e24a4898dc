// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"errors"
	"fmt"
	"strconv"

	"weft/internal/env"
	"weft/internal/fabric"
)

// Detect returns what the environment tells of an MPI launcher, nil if there is none or it is not
// to count.
func Detect() (*Launched, error) {
	use, err := env.UseMPI.Value()
	if err != nil {
		return nil, &Error{Op: "environment", Rank: -1, Err: err}
	}
	if use == 0 {
		return nil, nil
	}
	for _, l := range env.Launchers {
		if !l.MPI || env.Get(l.Rank) == "" {
			continue
		}
		found := &Launched{By: l.By, Rank: -1, Size: -1}
		if r, err := strconv.Atoi(env.Get(l.Rank)); err == nil && r >= 0 {
			found.Rank = r
		}
		if n, err := strconv.Atoi(env.Get(l.Ranks)); err == nil && n > 0 {
			found.Size = n
		}
		return found, nil
	}
	if use == 1 {
		return &Launched{Rank: -1, Size: -1}, nil
	}
	return nil, Strewn()
}

// ErrStrewn is the error of a process that srun has started as one of several, and told nothing by
// which these could meet.
var ErrStrewn = errors.New("the processes cannot find each other")

// Strewn returns an error if this process is one of several of a step of Slurm: nobody speaks PMI
// with them, so each would be a job of its own. SLURM_NTASKS says nothing of that: batch scripts
// have it too, which run once.
func Strewn() error {
	n, err := strconv.Atoi(env.Get(env.StepTasks))
	if err != nil || n <= 1 {
		return nil
	}
	ways := "srun --mpi=pmix or --mpi=pmi2, whichever the MPI library speaks"
	if !Built {
		ways = "a build with MPI (CC=mpicc, -tags mpi) under " + ways
	}
	return &Error{Op: "environment", Rank: -1, Err: fmt.Errorf("%w: srun has started %d of this program (%s) without PMI, and each would run the whole job. Ways: %s; "+
		"srun -n 1 weft run -n %d, which starts ranks on one node (weft run -listen and -join: on several); srun -n 1 for ranks as goroutines of one process; "+
		"%s=1 if the MPI library finds the others by itself; %s=0 if each process is to run by itself", ErrStrewn, n, env.StepTasks, ways, n, env.UseMPI.Name, env.UseMPI.Name)}
}

// Alone reports whether the launcher has started one process only, so that there is nothing to
// connect.
func (l *Launched) Alone() bool { return l.Size == 1 }

// Needed returns an error if the launcher has started several processes, and this build cannot
// connect them.
func (l *Launched) Needed() error {
	if Built || l.By != "" && l.Size <= 1 && l.Rank <= 0 {
		return nil
	}
	err := ErrAbsent
	if l.By != "" {
		err = fmt.Errorf("%s has started it as rank %d of several, but %w; %s=0 has each process run by itself", l.By, l.Rank, ErrAbsent, env.UseMPI.Name)
	}
	return &Error{Op: "init", Rank: -1, Err: err}
}

// agree compares what the launcher has told with what the library says.
func (l *Launched) agree(library string, rank, size int) error {
	if l.Size > 0 && size != l.Size || l.Rank >= 0 && rank != l.Rank && size == 1 {
		of := ""
		if l.Size > 0 {
			of = fmt.Sprintf(" of %d", l.Size)
		}
		return fmt.Errorf("%s has started this process as rank %d%s, but the program's MPI library (%s) takes it for rank %d of %d: "+
			"the launcher is probably another library's. Start the program by the mpirun that belongs to the mpicc it was built with", l.By, l.Rank, of, library, rank, size)
	}
	return nil
}

// sketch is an endpoint that has properties, and nothing else.
type sketch struct{ fabric.Endpoint }

// Sketch returns an endpoint of which only Caps and Close may be called: MPI cannot be tried where
// no launcher has started the program, and can be started once only.
func Sketch() (fabric.Endpoint, error) {
	if !Built {
		return nil, ErrAbsent
	}
	return sketch{}, nil
}

func (sketch) Caps(int) fabric.Caps { return caps }
func (sketch) Close() error         { return nil }
