// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package vet

import "golang.org/x/tools/go/analysis"

// Header finds accesses to variables that refer to memory beside accesses to that memory.
var Header = &analysis.Analyzer{
	Name: "header",
	Doc: `find accesses to a slice or pointer beside accesses to what it refers to

The address of a slice is that of the variable, which says where the elements are:

	t.Spawn(fill, deps.Out(&row))
	t.Spawn(use, deps.In(&row[0]))

name two objects, and nothing orders the tasks. Name the elements in both, deps.Slice(row).Out().
Where a body assigns the variable itself, it is an object like others, and nothing is reported.`,
	Run: runHeader,
}

func runHeader(pass *analysis.Pass) (any, error) {
	for _, f := range functions(pass) {
		var accs []*access // of tasks
		for _, c := range f.calls {
			accs = append(accs, c.accs...)
		}
		for _, a := range accs {
			kind := refers(a.v)
			if a.data || !a.whole || kind == "" || f.assigned(a) {
				continue
			}
			if loop, _ := f.loopOf(a.v); loop != nil {
				continue // which says it all
			}
			for _, b := range accs {
				if b.v == a.v && b.data {
					hint := "name the same in both"
					if kind == "slice" {
						hint = "name the elements in both, by deps.Slice(" + a.v.Name() + ")"
					}
					pass.Reportf(a.expr.Pos(), "%s names the %s %s itself, and %s in %s what it refers to: the two are different objects; %s",
						a.text(), kind, a.v.Name(), b.text(), f.line(b.expr), hint)
					break
				}
			}
		}
	}
	return nil, nil
}

// assigned reports whether a body assigns a's variable, or may: then it is an object of its own
// right.
func (f *function) assigned(a *access) bool {
	for _, id := range f.uses[a.v] {
		writes, may := f.written(id)
		if may {
			return true
		}
		if !writes {
			continue
		}
		for _, c := range f.calls {
			for _, body := range c.bodies {
				if within(id, body) {
					return true
				}
			}
		}
	}
	return false
}
