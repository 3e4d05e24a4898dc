// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package race tells the race detector, in a build for lint mode, what is ordered. Such a build
// leaves the runtime of tasks out of the detector, so that what the runtime does orders nothing
// there; what does is said by hand. In other builds all of it is nothing.
package race

import "regexp"

// A Clock is what the race detector keeps an order for: the value is not used. A goroutine that
// acquires a clock comes after all that other goroutines have done before they released the clock.
type Clock uint64

// Tag is the build tag of a build for lint mode. Such a build leaves Packages out of the race
// detector, by the flag -race=false of the compiler for each; the command "weft lint" sees to both.
const Tag = "weftlint"

// Packages are the packages that a build for lint mode leaves out of the race detector.
var Packages = []string{"weft/deps", "weft/internal/addrmap", "weft/internal/chain", "weft/internal/order", "weft/task", "weft/task/internal/audit", "weft/task/internal/guests", "weft/task/internal/lint", "weft/task/internal/pool", "weft/task/internal/probe", "weft/task/internal/record", "weft/task/internal/say", "weft/task/internal/sched", "weft/task/internal/stuck", "weft/task/internal/watchdog", "weft/tampi", "weft/internal/race", "weft/internal/xatomic", "weft/internal/event"}

// EnvRace is the race detector's own variable, and longest is how much of the past it is told
// to remember in lint mode: the most that is legal.
const (
	EnvRace = "GORACE"
	longest = "history_size=7"
)

// HistorySize finds in a value of EnvRace how much the detector remembers.
var HistorySize = regexp.MustCompile(`\bhistory_size=(\d+)`)

// History returns the value of EnvRace for lint mode: value, and in it a history that is as long
// as can be if it does not say how long.
func History(value string) string {
	switch {
	case HistorySize.MatchString(value):
		return value
	case value == "":
		return longest
	}
	return value + " " + longest
}
