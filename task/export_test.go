// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

// StandstillArmed reports whether the timer that checks for blocked slots runs.
func (rt *Runtime) StandstillArmed() bool { return rt.stuck.Armed() }

// InLintMode reports whether a test is in a build for lint mode.
func InLintMode() bool { return inLintMode() }
