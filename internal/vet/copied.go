// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// Copied finds accesses to copies that only one task knows.
var Copied = &analysis.Analyzer{
	Name: "copied",
	Doc: `find accesses to copies that only one task knows

A variable that begins as a copy of something else, or is a parameter, and is used by one task only:

	b := blocks[i]
	t.Spawn(func(*task.Task) error { b.sum++; return nil }, deps.InOut(&b))

is an object that no other task can name, and what the body writes to it is lost. Name the original,
deps.InOut(&blocks[i]). A variable that begins anew may be named once: nothing is reported.`,
	Run: run((*function).copied),
}

func (f *function) copied() {
	for _, c := range f.calls {
		if c.name == "Release" || c.name == "Uses" || c.name == "WaitOn" || len(c.bodies) != 1 {
			continue
		}
		for _, a := range c.accs {
			of := f.copyOf(a.v)
			loop, _ := f.loopOf(a.v)
			if a.data || of == "" || loop != nil || !f.knownOnlyTo(a.v, c) || !f.matters(a, c.bodies[0]) {
				continue
			}
			hint := "what the body writes to it is lost; name the original"
			if kind := refers(a.v); kind != "" {
				hint = "name what the " + kind + " refers to"
			}
			f.pass.Reportf(a.expr.Pos(), "%s names %s, %s, which only this task knows: it orders nothing; %s", a.text(), a.v.Name(), of, hint)
		}
	}
}

// copyOf says what v begins as a copy of; "" if it begins anew.
func (f *function) copyOf(v *types.Var) (what string) {
	ast.Inspect(f.decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType:
			for _, p := range n.Params.List {
				for _, id := range p.Names {
					if f.defines(id, v) {
						what = "a parameter"
					}
				}
			}
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE || len(n.Lhs) != len(n.Rhs) {
				break
			}
			for i, e := range n.Lhs {
				if f.defines(e, v) && f.variable(n.Rhs[i]) != nil {
					what = "a copy of " + types.ExprString(n.Rhs[i])
				}
			}
		}
		return what == ""
	})
	return what
}

// knownOnlyTo reports whether v is used by c's accesses and body, and by nothing else, nor by tasks
// that the body makes.
func (f *function) knownOnlyTo(v *types.Var, c *call) bool {
	for _, id := range f.uses[v] {
		if _, may := f.written(id); may || !within(id, c) {
			return false
		}
	}
	return !slices.ContainsFunc(f.calls, func(child *call) bool { return child != c && within(child, c) && child.of(v) > 0 })
}

// matters reports whether the body does with a's variable what the access was meant for: it writes
// to it, or uses what it refers to.
func (f *function) matters(a *access, body *ast.FuncLit) bool {
	return slices.ContainsFunc(f.uses[a.v], func(id *ast.Ident) bool {
		writes, _ := f.written(id)
		return within(id, body) && writes != (refers(a.v) != "")
	})
}
