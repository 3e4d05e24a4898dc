// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"
	"fmt"
	"strconv"

	"weft/bench/internal/harness"
	"weft/bench/internal/native"
)

// slowReaders is the greatest number of tasks of task/readers that libgomp runs with one thread.
// There it searches all earlier readers: 50,000 tasks take half a second, 200,000 seven seconds
// (measured, gcc 12).
const slowReaders = 100_000

// foreign returns the peer of the named workload that a tool chain builds from bench/peers/tasks_*.
func foreign(kit *native.Kit, tc *native.Toolchain, workload string) harness.Peer {
	open := func(ctx context.Context, p harness.Params) (harness.Probe, error) {
		if tc == native.Libgomp && workload == "task/readers" && p.Workers == 1 && p.Size > slowReaders {
			return harness.Probe{}, harness.Skip("with one thread its time for %s grows with the square of the tasks: minutes for %d", workload, p.Size)
		}
		proc, err := kit.Start(ctx, tc, "tasks", workload, strconv.FormatInt(p.Size, 10), strconv.Itoa(p.Workers))
		if err != nil {
			return harness.Probe{}, err
		}
		question := fmt.Sprintf("sample 0 0 %.3f", p.MinTime.Seconds()*1e3)
		return harness.Probe{
			Sample: func(context.Context) (float64, error) { return proc.Ask(question) },
			Close:  proc.Close,
		}, nil
	}
	return harness.Peer{Name: tc.Name, Extra: true, Rival: true, Open: open}
}
