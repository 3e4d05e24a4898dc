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

// Detect returns the environment's information about an MPI launcher, nil if there is none or
// WEFT_MPI=0 hides it.
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
	return nil, Unconnected()
}

// ErrUnconnected is the error of a process that srun has started as one of several, without
// information by which the processes could connect.
var ErrUnconnected = errors.New("the processes cannot find each other")

// Unconnected returns an error if this process is one of several of a Slurm step: without PMI, each
// process would be a job by itself. SLURM_NTASKS does not tell that, since batch scripts, which run
// once, have it too.
func Unconnected() error {
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
		"%s=1 if the MPI library finds the others by itself; %s=0 if each process is to run by itself", ErrUnconnected, n, env.StepTasks, ways, n, env.UseMPI.Name, env.UseMPI.Name)}
}

// Alone reports whether the launcher has started one process only: there is nothing to connect.
func (l *Launched) Alone() bool { return l.Size == 1 }

// Needed returns an error if the launcher has started several processes, and this build cannot
// connect them.
func (l *Launched) Needed() error {
	if Built || l.By != "" && l.Size <= 1 && l.Rank <= 0 {
		return nil
	}
	err := ErrAbsent
	if l.By != "" {
		err = fmt.Errorf("%s has started this process as rank %d of several, but %w; with %s=0 each process runs by itself", l.By, l.Rank, ErrAbsent, env.UseMPI.Name)
	}
	return &Error{Op: "init", Rank: -1, Err: err}
}

// agree compares the launcher's rank and size with those of the library.
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

// sketch is an endpoint that has only properties.
type sketch struct{ fabric.Endpoint }

// Sketch returns an endpoint of which only Caps and Close may be called. A real one cannot be
// opened on trial: without a launcher MPI cannot start, and it can start only once.
func Sketch() (fabric.Endpoint, error) {
	if !Built {
		return nil, ErrAbsent
	}
	return sketch{}, nil
}

func (sketch) Caps(int) fabric.Caps { return caps }
func (sketch) Close() error         { return nil }
