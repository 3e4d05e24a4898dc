// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package race tells the race detector, in a build for lint mode, which actions are ordered. Such a
// build leaves the task runtime out of the detector, so that the runtime's synchronisation orders
// nothing there; this package declares the order explicitly. In other builds its functions do
// nothing.
package race

import "regexp"

// A Clock is an address for which the race detector keeps an order; its value is not used. A
// goroutine that acquires a clock comes after everything that other goroutines did before they
// released the clock.
type Clock uint64

// Tag is the build tag of a build for lint mode. Such a build leaves Packages out of the race
// detector, by the compiler flag -race=false for each of them; the command "weft lint" sets both.
const Tag = "weftlint"

// Packages are the packages that a build for lint mode leaves out of the race detector.
var Packages = []string{"weft/deps", "weft/internal/addrmap", "weft/internal/chain", "weft/internal/order", "weft/task", "weft/task/internal/audit", "weft/task/internal/guests", "weft/task/internal/lint", "weft/task/internal/pool", "weft/task/internal/probe", "weft/task/internal/record", "weft/task/internal/say", "weft/task/internal/sched", "weft/task/internal/stuck", "weft/task/internal/watchdog", "weft/tampi", "weft/internal/race", "weft/internal/xatomic", "weft/internal/event"}

// EnvRace is the race detector's own environment variable, and longest the option by which it
// remembers as much of the past as is legal, for lint mode.
const (
	EnvRace = "GORACE"
	longest = "history_size=7"
)

// HistorySize finds in a value of EnvRace how much of the past the detector remembers.
var HistorySize = regexp.MustCompile(`\bhistory_size=(\d+)`)

// History returns the value of EnvRace for lint mode: value, with the longest history if value does
// not set one.
func History(value string) string {
	switch {
	case HistorySize.MatchString(value):
		return value
	case value == "":
		return longest
	}
	return value + " " + longest
}
