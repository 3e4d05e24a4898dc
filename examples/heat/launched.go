// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"strings"

	"weft/comm"
	"weft/examples/heat/internal/conf"
	"weft/nam"
	"weft/task"
)

// A run whose ranks are processes. Rank 0 prints the settings, the result, and the errors of all
// preparations. One rank prints an error that ends the run. So everything is printed once.

// reportedElsewhere is an error that another process reports.
type reportedElsewhere struct{ err error }

func (e *reportedElsewhere) Error() string { return e.err.Error() }
func (e *reportedElsewhere) Unwrap() error { return e.err }

// runLaunched is the first program as one rank of several. perr is the error of its command line.
func runLaunched(ctx context.Context, rank int, cfg *conf.Run, perr error, stdout, stderr io.Writer) (err error) {
	root := rank == 0
	if !root {
		stdout, stderr = io.Discard, io.Discard
	}
	if errors.Is(perr, conf.ErrHelp) {
		if root {
			return perr
		}
		return nil
	}
	h := &heat{cfg: cfg, root: root}
	defer h.close(&err)
	if perr == nil {
		perr = h.prepare()
	}
	var refused error
	begin := func(c *comm.Comm) (bool, error) {
		var err error
		refused, err = h.begin(c, perr)
		return err == nil && refused == nil, err
	}
	if perr != nil {
		err = comm.Main(ctx, comm.Config{}, func(c *comm.Comm) error {
			_, err := begin(c)
			return err
		})
	} else {
		err = h.run(ctx, stdout, stderr, func(c *comm.Comm) error {
			if ok, err := begin(c); !ok {
				return err
			}
			err := h.rank(c)
			if of := (*nam.Error)(nil); !root && errors.As(err, &of) && !errors.Is(err, comm.ErrAborted) {
				// the error of a collective call: rank 0 has the same error, and ends the run with
				// it
				return nil
			}
			return err
		})
	}
	if refused != nil {
		if err = refused; !root {
			err = &reportedElsewhere{err}
		}
		return err
	}
	return reportOnce(rank, err)
}

// reportOnce decides which process reports an error that ended the run: that of the rank that has
// the error or, if that rank is lost, that of the first other rank; rank 0 if the error belongs to
// no rank.
func reportOnce(rank int, err error) error {
	if err == nil {
		return nil
	}
	reporter := 0
	var of *comm.RankError
	if errors.As(err, &of) {
		switch {
		case !errors.Is(err, comm.ErrPeerLost):
			reporter = of.Rank
		case of.Rank == 0:
			reporter = 1
		}
	}
	if rank != reporter {
		return &reportedElsewhere{err}
	}
	return err
}

// readiness is the message that each rank sends to all others before the run.
type readiness struct {
	verdict int64  // result of this rank's preparations
	flags   uint64 // hash of the settings that must be the same on all ranks
	text    [1 << 10]byte
}

const (
	fine = iota
	failed
	misused
)

// begin exchanges the results of the ranks' preparations. refused is the error of any rank, the
// same on all ranks; err means that the exchange failed. If both are nil, all ranks have the name
// of the window.
func (h *heat) begin(c *comm.Comm, mine error) (refused, err error) {
	var me readiness
	var usage *conf.UsageError
	switch {
	case errors.As(mine, &usage):
		me.verdict = misused
	case mine != nil:
		me.verdict = failed
	}
	if mine != nil {
		copy(me.text[:], mine.Error())
	} else {
		me.flags = flagsOf(h.cfg)
		copy(me.text[:], h.window)
	}
	all := make([]readiness, c.Size())
	if err := c.Allgather(comm.Of([]readiness{me}), comm.Of(all)); err != nil {
		return nil, err
	}
	status := fine
	var problems []string
	for r := range all {
		k := &all[r]
		what := strings.TrimRight(string(k.text[:]), "\x00")
		switch {
		case k.verdict != fine:
			status = max(status, int(k.verdict))
		case all[0].verdict == fine && k.flags != all[0].flags:
			status, what = misused, "its flags are not those of rank 0; all ranks of a run need the same"
		default:
			continue
		}
		problems = append(problems, fmt.Sprintf("rank %d: %s", r, what))
	}
	if len(problems) == 0 {
		h.window = strings.TrimRight(string(all[0].text[:]), "\x00")
		return nil, nil
	}
	if len(problems) == len(all) && sameText(all) { // most mistakes are the same on all ranks
		problems = []string{strings.TrimRight(string(all[0].text[:]), "\x00")}
	}
	err = errors.New(strings.Join(problems, "; "))
	if status == misused {
		err = &conf.UsageError{Err: err}
	}
	return err, nil
}

func sameText(all []readiness) bool {
	for r := range all {
		if all[r].text != all[0].text {
			return false
		}
	}
	return true
}

// flagsOf returns a hash of the settings that must be the same on all ranks.
func flagsOf(cfg *conf.Run) uint64 {
	k := *cfg
	k.Workers, k.CPUProfile, k.Verbose, k.Progress, k.GIF, k.NamDir, k.Watch = 0, "", false, false, "", "", conf.Watch{}
	f := fnv.New64a()
	_, _ = fmt.Fprintf(f, "%+v", k)
	return f.Sum64()
}

// workers is the number of slots for the task runtime; 0 means the runtime's default. The ranks of
// a job share the machine's cores.
func workers(cfg *conf.Run) int {
	if cfg.Workers > 0 || !cfg.Launched || os.Getenv(task.EnvWorkers) != "" || comm.Bound() {
		return cfg.Workers // a bound rank has its processors for itself
	}
	return max(1, task.DefaultWorkers()/cfg.Layout.Ranks)
}
