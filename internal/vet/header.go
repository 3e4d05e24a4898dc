// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package vet

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// Header finds accesses to variables that refer to memory, while other accesses name that memory.
var Header = &analysis.Analyzer{
	Name: "header",
	Doc: `find accesses to a slice or pointer, while other accesses name what it refers to

The address of a slice variable is not that of its elements:

	t.Spawn(fill, deps.Out(&row))
	t.Spawn(use, deps.In(&row[0]))

name two objects, and nothing orders the tasks. Name the elements in both, deps.Slice(row).Out().
If a body assigns the variable itself, the variable is an object like others, and nothing is reported.`,
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
			hint := "name the same object in both"
			if kind == "slice" {
				hint = "name the elements in both, by deps.Slice(" + a.v.Name() + ")"
			}
			f.pass.Reportf(a.expr.Pos(), "%s names the %s %s itself, and %s in %s names what it refers to: these are different objects; %s",
				a.text(), kind, a.v.Name(), b.text(), f.line(b.expr), hint)
		}
	}
}

// elements returns an access of another call than c to what a's variable refers to, if the access
// should be ordered with a and is not: one of the two writes, and nothing else orders the tasks.
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

// alsoLinked reports whether two calls have, or may have, accesses to a common variable other than
// v.
func alsoLinked(c, other *call, v *types.Var) bool {
	return c.opaque || other.opaque || slices.ContainsFunc(c.accs, func(a *access) bool { return a.v != v && other.of(a.v) > 0 })
}

// waitedFor reports whether inner is in the body of a task that waits for its children, and that is
// ordered with outer. Then inner is ordered with outer, too.
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

// orders reports whether c has, or may have, a strong access to an object of which other has an
// access.
func (c *call) orders(other *call) bool {
	return c.opaque || slices.ContainsFunc(c.accs, func(a *access) bool { return !a.weak && other.of(a.v) > 0 })
}

// assigned reports whether a body assigns, or may assign, a's variable. Then the variable is an
// object of its own.
func (f *function) assigned(a *access) bool {
	return slices.ContainsFunc(f.uses[a.v], func(id *ast.Ident) bool {
		writes, may := f.written(id)
		return may || writes && slices.ContainsFunc(f.calls, func(c *call) bool {
			return slices.ContainsFunc(c.bodies, func(body *ast.FuncLit) bool { return within(id, body) })
		})
	})
}
