// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package heat

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"weft/bench/internal/harness"
)

// Shape of a run: blocks of 256, or a quarter of a matrix that is smaller than four of those.
const (
	fullSteps  = 100
	quickSteps = 20
	fullSize   = 2048
	quickSize  = 256
	blockSize  = 256
)

// A configuration has the arguments of one peer in one group.
type configuration struct {
	variant   string
	kernel    string // empty means the program's own choice
	ranks     int
	workers   int
	size      int64
	snapshots bool // every tenth step
}

func (c configuration) args(namDir string) []string {
	steps, block := fullSteps, int64(blockSize)
	if c.size < 4*blockSize {
		steps, block = quickSteps, c.size/4
	}
	args := []string{
		"-variant", c.variant, "-ranks", strconv.Itoa(c.ranks), "-workers", strconv.Itoa(c.workers),
		"-size", strconv.FormatInt(c.size, 10), "-bs", strconv.FormatInt(block, 10), "-timesteps", strconv.Itoa(steps),
	}
	if c.kernel != "" {
		args = append(args, "-kernel", c.kernel)
	}
	if c.snapshots {
		args = append(args, "-nam-freq", "10", "-nam-dir", namDir)
	} else {
		args = append(args, "-nam-freq", "0")
	}
	return args
}

// peer makes a peer. choose returns its configuration for the parameters of a group.
func (p *Program) peer(name string, choose func(harness.Params) configuration) harness.Peer {
	open := func(ctx context.Context, params harness.Params) (harness.Probe, error) {
		if err := p.build(ctx); err != nil {
			return harness.Probe{}, err
		}
		c := choose(params)
		return harness.Probe{Sample: func(ctx context.Context) (float64, error) {
			namDir := filepath.Join(p.dir, "nam")
			rate, err := p.run(ctx, c.workers, c.args(namDir))
			// every run starts with an empty store
			return rate, errors.Join(err, os.RemoveAll(namDir))
		}}, nil
	}
	return harness.Peer{Name: name, Open: open}
}

// Workloads returns heat/VARIANT and heat/snapshots.
func Workloads(p *Program) []harness.Workload {
	variant := func(name string, snapshots bool) func(harness.Params) configuration {
		return func(q harness.Params) configuration {
			return configuration{variant: name, ranks: q.Ranks, workers: q.Workers, size: q.Size, snapshots: snapshots}
		}
	}
	sequential := p.peer("sequential", func(q harness.Params) configuration {
		return configuration{variant: "mpi", kernel: "row", ranks: 1, workers: 1, size: q.Size}
	})
	load := func(name, about string, ranks []int, peers ...harness.Peer) harness.Workload {
		return harness.Workload{
			Name: name, About: about, Unit: "MUpd/s", HigherIsBetter: true,
			SizeOf: "rows and columns", Sizes: []int64{fullSize}, Quick: []int64{quickSize}, Ranks: ranks, Peers: peers,
		}
	}
	return []harness.Workload{
		load("heat/mpi", "a sweep per rank, blocking halos", []int{1, 2}, p.peer(harness.Ours, variant("mpi", false)), sequential),
		load("heat/itampi", "block tasks, halos bound by Iwait", []int{1, 2}, p.peer(harness.Ours, variant("itampi", false)), sequential),
		load("heat/tampirma", "block tasks, halos put between two ifences", []int{2}, p.peer(harness.Ours, variant("tampirma", false)), sequential),
		load("heat/snapshots", "itampi with a NAM snapshot every tenth step", []int{1},
			p.peer(harness.Ours, variant("itampi", true)), p.peer("nosnapshot", variant("itampi", false))),
	}
}
