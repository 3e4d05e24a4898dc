// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package vet has the analyzers of "weft vet", which find accesses that name the wrong object,
// without running the program:
//
//	loopvar     an access to a variable that each iteration of a loop makes anew
//	header      an access to a slice, map or pointer beside one to what it refers to
//	copied      an access to a copy that only one task knows
//	undeclared  a body that uses what another task declares, and its own does not
//
// They report what is wrong in all programs that have it, and nothing that may be right: an object
// that is named once is legal, as long as it is no copy of something else. What they cannot see,
// such as a list of accesses that is made elsewhere, they take to be right. The guide, traps.md,
// has an example of each.
package vet

import "golang.org/x/tools/go/analysis"

// Analyzers are all of them.
var Analyzers = []*analysis.Analyzer{LoopVar, Header, Copied, Undeclared}
