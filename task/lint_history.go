// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"
	"syscall"

	"weft/internal/env"
	"weft/internal/race"
)

// EnvRace is the race detector's own variable, and lintHistory is how much of the past it is told
// to remember in lint mode: the most that is legal.
const (
	EnvRace     = "GORACE"
	lintHistory = "history_size=7"
)

// accessesPerHistory is how many accesses of a body the race detector remembers for each step of
// history_size, of which there are two at least. Measured: 40,000 with 0, 160,000 with 7.
const accessesPerHistory = 18_000

var historySize = regexp.MustCompile(`\bhistory_size=(\d+)`)

// LintRace returns the value of EnvRace for lint mode: value, and in it a history that is as long
// as can be if it does not say how long.
func LintRace(value string) string {
	switch {
	case historySize.MatchString(value):
		return value
	case value == "":
		return lintHistory
	}
	return value + " " + lintHistory
}

// A program reads EnvRace before its first instruction in Go. So one that is built for lint mode,
// and not told to do without it, begins anew if it has not been told what to remember. It does so
// before packages that import this one have done anything. Where a system cannot do that, the
// program goes on, and says how far it sees.
func init() {
	value := os.Getenv(EnvRace)
	if !race.Lint || os.Getenv(EnvLint) == "0" || LintRace(value) == value {
		return
	}
	program, err := os.Executable()
	if err != nil || os.Setenv(EnvRace, LintRace(value)) != nil {
		return
	}
	_ = syscall.Exec(program, os.Args, os.Environ())
	_ = os.Setenv(EnvRace, value)
}

var lintSays sync.Once

// sayLint says, once in a process and for a job by rank 0 only, that lint mode is on, and how far
// it sees.
func (c *Config) sayLint() {
	lintSays.Do(func() {
		if !env.Speaks() {
			return
		}
		size := 0
		if m := historySize.FindStringSubmatch(os.Getenv(EnvRace)); m != nil {
			size, _ = strconv.Atoi(m[1])
		}
		limit := fmt.Sprintf("a race is missed if, since the earlier of its two accesses, that body has made more than some %d others, or more than some %d bodies have ended",
			(size+2)*accessesPerHistory/10_000*10_000, lintKept/50*50)
		if c.Logger != nil {
			c.Logger.Info("lint mode", "limit", limit, EnvRace, os.Getenv(EnvRace))
			return
		}
		fmt.Fprintf(c.Reports, "weft: lint mode: %s (%s=%q)\n", limit, EnvRace, os.Getenv(EnvRace))
	})
}
