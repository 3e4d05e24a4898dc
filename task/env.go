// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import "weft/internal/race"

// envDeadlock is of package comm's ranks, too.
const envDeadlock = "PSP_DEADLOCK_WARNINGS"

// The environment variables that the package reads, where Config leaves a value open.
const (
	EnvWorkers  = "WEFT_WORKERS"  // Config.Workers
	EnvWindow   = "WEFT_WINDOW"   // Config.Window
	EnvLint     = race.EnvLint    // Config.Lint
	EnvDebug    = "WEFT_DEBUG"    // Config.Debug
	EnvWatchdog = "WEFT_WATCHDOG" // Config.Watchdog
)

// DefaultWindow is the bound on live children where nothing else is said.
const DefaultWindow = defaultWindow
