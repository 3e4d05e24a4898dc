// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package vet

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// Header finds accesses to variables that refer to memory beside accesses to that memory.
var Header = &analysis.Analyzer{
	Name: "header",
	Doc: `find accesses to a slice or pointer beside accesses to what it refers to

The address of a slice is that of the variable, which says where the elements are:

	t.Spawn(fill, deps.Out(&row))
	t.Spawn(use, deps.In(&row[0]))

name two objects, and nothing orders the tasks. Name the elements in both, deps.Slice(row).Out().
Where a body assigns the variable itself, it is an object like others, and nothing is reported.`,
	Run: run((*function).header),
}

func (f *function) header() {
	for _, c := range f.calls {
		for _, a := range c.accs {
			kind := refers(a.v)
			if a.data || !a.whole || kind == "" || f.assigned(a) {
				continue
			}
			b := f.elements(c, a)
			if b == nil {
				continue
			}
			hint := "name the same in both"
			if kind == "slice" {
				hint = "name the elements in both, by deps.Slice(" + a.v.Name() + ")"
			}
			f.pass.Reportf(a.expr.Pos(), "%s names the %s %s itself, and %s in %s what it refers to: the two are different objects; %s",
				a.text(), kind, a.v.Name(), b.text(), f.line(b.expr), hint)
		}
	}
}

// elements returns an access by another call than c to what a's variable refers to, which should be
// ordered with a and is not: one of the two writes, and nothing else orders the tasks.
func (f *function) elements(c *call, a *access) *access {
	for _, other := range f.calls {
		if other == c || c.in == other.in && (c.on != other.on || f.waits(c, other)) || f.waitedFor(c, other) || f.waitedFor(other, c) {
			continue
		}
		for _, b := range other.accs {
			if b.v == a.v && b.data && (a.writes() || b.writes()) && !alsoLinked(c, other, a.v) {
				return b
			}
		}
	}
	return nil
}

// alsoLinked reports whether two calls have accesses to another variable than v in common, or may
// have.
func alsoLinked(c, other *call, v *types.Var) bool {
	return c.opaque || other.opaque || slices.ContainsFunc(c.accs, func(a *access) bool { return a.v != v && other.of(a.v) > 0 })
}

// waitedFor reports whether inner is in the body of a task that waits for its children, and that is
// outer or is ordered with it: then inner is, too.
func (f *function) waitedFor(inner, outer *call) bool {
	for _, c := range f.calls {
		for _, body := range c.bodies {
			if within(inner, body) && !within(outer, body) && (c.opaque || waitsIn(body)) && c.orders(outer) {
				return true
			}
		}
	}
	return false
}

// orders reports whether c takes an object of which other has an access.
func (c *call) orders(other *call) bool {
	return c.opaque || slices.ContainsFunc(c.accs, func(a *access) bool { return !a.weak && other.of(a.v) > 0 })
}

// assigned reports whether a body assigns a's variable, or may: then it is an object of its own
// right.
func (f *function) assigned(a *access) bool {
	return slices.ContainsFunc(f.uses[a.v], func(id *ast.Ident) bool {
		writes, may := f.written(id)
		return may || writes && slices.ContainsFunc(f.calls, func(c *call) bool {
			return slices.ContainsFunc(c.bodies, func(body *ast.FuncLit) bool { return within(id, body) })
		})
	})
}
