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

// Copied finds accesses to copies that only one task can name.
var Copied = &analysis.Analyzer{
	Name: "copied",
	Doc: `find accesses to copies that only one task can name

	b := blocks[i]
	t.Spawn(func(*task.Task) error { b.sum++; return nil }, deps.InOut(&b))

The variable b is a copy of something else (or a parameter), and only one task uses it. No other task can
name it, and what the body writes to it is lost. Name the original, deps.InOut(&blocks[i]). A variable that
is no copy may be named once: nothing is reported.`,
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
			f.pass.Reportf(a.expr.Pos(), "%s names %s, %s, which no other task can name: the access orders nothing; %s", a.text(), a.v.Name(), of, hint)
		}
	}
}

// copyOf describes what v is a copy of when it is declared; "" if it is no copy.
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

// knownOnlyTo reports whether only c's accesses and body use v, and no tasks that the body spawns.
func (f *function) knownOnlyTo(v *types.Var, c *call) bool {
	for _, id := range f.uses[v] {
		if _, may := f.written(id); may || !within(id, c) {
			return false
		}
	}
	return !slices.ContainsFunc(f.calls, func(child *call) bool { return child != c && within(child, c) && child.of(v) > 0 })
}

// matters reports whether the body uses a's variable in the way for which the access is declared:
// it writes the variable or, if the variable refers to memory, uses that memory.
func (f *function) matters(a *access, body *ast.FuncLit) bool {
	return slices.ContainsFunc(f.uses[a.v], func(id *ast.Ident) bool {
		writes, _ := f.written(id)
		return within(id, body) && writes != (refers(a.v) != "")
	})
}
