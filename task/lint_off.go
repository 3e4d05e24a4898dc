// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !weftlint || !race || explore

package task

// lintBuild says that the program is built for lint mode.
const lintBuild = false

func acquire[T any](*T) {}
func release[T any](*T) {}
func hide()             {}
func show()             {}
