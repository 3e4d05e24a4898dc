// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package vet has the analyzers of "weft vet", which find accesses that name the wrong object,
// without running the program:
//
//	loopvar     an access to a variable of which each iteration of a loop has its own
//	header      an access to a slice, map or pointer, while another access names what it refers to
//	copied      an access to a copy that only one task can name
//	undeclared  a body that uses an object that another task declares and its own task does not
//
// They report only code that is wrong in every program. An object that is named once is legal,
// unless it is a copy of something else. What the analyzers cannot see, such as a list of accesses
// that is made elsewhere, counts as correct. The guide, traps.md, has an example of each.
package vet

import "golang.org/x/tools/go/analysis"

// Analyzers are all analyzers of this package.
var Analyzers = []*analysis.Analyzer{LoopVar, Header, Copied, Undeclared}
