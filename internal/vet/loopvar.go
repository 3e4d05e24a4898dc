// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// LoopVar finds accesses to variables that each iteration of a loop makes anew.
var LoopVar = &analysis.Analyzer{
	Name: "loopvar",
	Doc: `find accesses to variables of loops

Each iteration of a loop has variables of its own. In

	for _, b := range blocks {
		t.Spawn(body, deps.InOut(&b))
	}

each task names a copy of a block, which no other task can name: the access orders nothing. Name the
element, deps.InOut(&blocks[i]).`,
	Run: runLoopVar,
}

func runLoopVar(pass *analysis.Pass) (any, error) {
	for _, f := range functions(pass) {
		for _, a := range f.accs {
			if a.data {
				continue
			}
			loop, elements := f.loopOf(a.v)
			if loop == nil {
				continue
			}
			hint := "name what the iterations share"
			if elements != "" {
				hint = fmt.Sprintf("name the element: &%s[i]", elements)
			}
			pass.Reportf(a.expr.Pos(), "%s names %s, which each iteration makes anew, so that no other task can name it; %s", a.text(), a.v.Name(), hint)
		}
	}
	return nil, nil
}

// loopOf returns the loop that v is a variable of, and what it ranges over if v has the elements of
// that, which have addresses.
func (f *function) loopOf(v *types.Var) (loop ast.Stmt, elements string) {
	ast.Inspect(f.decl, func(n ast.Node) bool {
		if n == nil || loop != nil || v.Pos() < n.Pos() || n.End() <= v.Pos() {
			return false
		}
		switch n := n.(type) {
		case *ast.RangeStmt:
			if n.Tok != token.DEFINE {
				break
			}
			if f.defines(n.Key, v) {
				loop = n
			}
			if f.defines(n.Value, v) {
				loop = n
				switch f.pass.TypesInfo.TypeOf(n.X).Underlying().(type) {
				case *types.Slice, *types.Array, *types.Pointer:
					elements = types.ExprString(n.X)
				}
			}
		case *ast.ForStmt:
			if s, ok := n.Init.(*ast.AssignStmt); ok && s.Tok == token.DEFINE {
				for _, e := range s.Lhs {
					if f.defines(e, v) {
						loop = n
					}
				}
			}
		}
		return true
	})
	return loop, elements
}

// defines reports whether an expression is where v is declared.
func (f *function) defines(e ast.Expr, v *types.Var) bool {
	id, ok := e.(*ast.Ident)
	return ok && f.pass.TypesInfo.Defs[id] == v
}
