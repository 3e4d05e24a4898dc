// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package names lists the modes of accesses by their numbers. Package chain gives the modes their
// meaning; package event has the numbers in trace records and shows the names. So the numbers are
// part of the trace format: a new mode is added at the end.
package names

// Modes has the names of the modes: those of the constructors in package deps.
var Modes = [...]string{"In", "Out", "InOut", "Concurrent", "Reduce", "Commutative"}
