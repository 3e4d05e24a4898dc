// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"syscall"

	"weft/internal/env"
	"weft/internal/race"
)

// accessesPerHistory is how many accesses of a body the race detector remembers for each step of
// history_size plus two. Measured: 40,000 with history_size 0, 160,000 with 7.
const accessesPerHistory = 18_000

// The race detector reads race.EnvRace before the first instruction in Go. So if lint mode is on
// and race.EnvRace has no history_size, the program sets it and replaces itself by exec, before
// packages that import this one are initialised. Where that fails, the program continues with a
// shorter history, which Say logs.
func init() {
	value := env.Get(race.EnvRace)
	if !race.Lint || env.Lint.Text() == "0" || race.History(value) == value {
		return
	}
	program, err := os.Executable()
	if err != nil || os.Setenv(race.EnvRace, race.History(value)) != nil {
		return
	}
	_ = syscall.Exec(program, os.Args, env.All())
	_ = os.Setenv(race.EnvRace, value)
}

var sayOnce sync.Once

// Say reports that lint mode is on, and which races it misses: to log, or, if that is nil, to out.
// It does so once in a process, and only in rank 0 of a job.
func Say(log *slog.Logger, out io.Writer) {
	sayOnce.Do(func() {
		if !env.IsReporter() {
			return
		}
		size := 0
		if m := race.HistorySize.FindStringSubmatch(env.Get(race.EnvRace)); m != nil {
			size, _ = strconv.Atoi(m[1])
		}
		limit := fmt.Sprintf("a race is missed if, after the first of its two accesses, the same body made more than about %d others, or more than about %d bodies ended",
			(size+2)*accessesPerHistory/10_000*10_000, kept/50*50)
		if log != nil {
			log.Info("lint mode", "limit", limit, race.EnvRace, env.Get(race.EnvRace))
			return
		}
		_, _ = fmt.Fprintf(out, "weft: lint mode: %s (%s=%q)\n", limit, race.EnvRace, env.Get(race.EnvRace))
	})
}
