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
// history_size, of which there are two at least. Measured: 40,000 with 0, 160,000 with 7.
const accessesPerHistory = 18_000

// A program reads race.EnvRace before its first instruction in Go. So one that is built for lint
// mode, and not told to do without it, begins anew if it has not been told what to remember. It
// does so before packages that import this one have done anything. Where a system cannot do that,
// the program goes on, and says how far it sees.
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

// Say says, once in a process and for a job by rank 0 only, that lint mode is on, and how far it
// sees: to log, or, if that is nil, to out.
func Say(log *slog.Logger, out io.Writer) {
	sayOnce.Do(func() {
		if !env.IsReporter() {
			return
		}
		size := 0
		if m := race.HistorySize.FindStringSubmatch(env.Get(race.EnvRace)); m != nil {
			size, _ = strconv.Atoi(m[1])
		}
		limit := fmt.Sprintf("a race is missed if, since the earlier of its two accesses, that body has made more than some %d others, or more than some %d bodies have ended",
			(size+2)*accessesPerHistory/10_000*10_000, kept/50*50)
		if log != nil {
			log.Info("lint mode", "limit", limit, race.EnvRace, env.Get(race.EnvRace))
			return
		}
		_, _ = fmt.Fprintf(out, "weft: lint mode: %s (%s=%q)\n", limit, race.EnvRace, env.Get(race.EnvRace))
	})
}
