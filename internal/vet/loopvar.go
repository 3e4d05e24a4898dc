// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package vet

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"

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
element, deps.InOut(&blocks[i]). Where other tasks or statements of the iteration use the variable, too,
nothing is reported, unless the loop is repeated and the copies refer to the same memory.`,
	Run: run((*function).loopVar),
}

func (f *function) loopVar() {
	for _, a := range f.accs {
		loop, elements := f.loopOf(a.v)
		if a.data || loop == nil || f.mayBeMeant(a, loop) {
			continue
		}
		hint := "name what the iterations share"
		if elements != "" {
			hint = fmt.Sprintf("name the element: &%s[i]", elements)
		}
		f.pass.Reportf(a.expr.Pos(), "%s names %s, which each iteration makes anew, so that no other task can name it; %s", a.text(), a.v.Name(), hint)
	}
}

// mayBeMeant reports whether an access to a variable of a loop may be right: something else in the
// iteration uses it after the task, or may keep its address, or its task only reads what is nowhere
// else.
func (f *function) mayBeMeant(a *access, loop ast.Stmt) bool {
	if !a.writes() && !shares(a.v.Type()) {
		return true
	}
	var last *call // that has a
	names := 0     // how many calls have accesses to it
	for _, c := range f.calls {
		of := 0
		for _, b := range c.accs {
			if b.v == a.v && !b.data {
				of = 1
			}
			if b.of == a.of {
				last = c
			}
		}
		if c.name == "WaitOn" && of > 0 {
			return true
		}
		if c.name != "Release" && c.name != "Uses" {
			names += of
		}
	}
	for _, id := range f.uses[a.v] {
		after := last == nil && id.Pos() > a.expr.End() || last != nil && id.Pos() > last.End()
		_, may := f.written(id)
		if (after || may) && within(id, loop) && !f.inCall(id) {
			return true
		}
	}
	return names > 1 && !(shares(a.v.Type()) && f.repeated(loop))
}

// inCall reports whether a node is a part of a call that takes accesses.
func (f *function) inCall(n ast.Node) bool {
	return slices.ContainsFunc(f.calls, func(c *call) bool { return within(n, c) })
}

// repeated reports whether a loop is in another one of its function, in which nothing waits.
func (f *function) repeated(loop ast.Stmt) bool {
	for n := f.up[ast.Node(loop)]; n != nil; n = f.up[n] {
		switch n.(type) {
		case *ast.FuncLit, *ast.FuncDecl:
			return false
		case *ast.ForStmt, *ast.RangeStmt:
			return !waitsIn(n)
		}
	}
	return false
}

// waitsIn reports whether anything in a node may wait for tasks.
func waitsIn(n ast.Node) (waits bool) {
	ast.Inspect(n, func(x ast.Node) bool {
		if s, ok := x.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "Wait") {
			waits = true
		}
		return !waits
	})
	return waits
}

// shares reports whether copies of a type's values refer to the same memory.
func shares(t types.Type) bool {
	switch t := t.Underlying().(type) {
	case *types.Slice, *types.Pointer, *types.Map, *types.Chan, *types.Interface, *types.Signature:
		return true
	case *types.Array:
		return shares(t.Elem())
	case *types.Struct:
		for f := range t.Fields() {
			if shares(f.Type()) {
				return true
			}
		}
	}
	return false
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
			if f.defines(n.Key, v) {
				loop = n
			}
			if f.defines(n.Value, v) {
				loop = n
				switch f.pass.TypesInfo.TypeOf(n.X).Underlying().(type) {
				case *types.Slice, *types.Array, *types.Pointer:
					if f.variable(n.X) != nil {
						elements = types.ExprString(n.X)
					}
				}
			}
		case *ast.ForStmt:
			s, ok := n.Init.(*ast.AssignStmt)
			if ok && slices.ContainsFunc(s.Lhs, func(e ast.Expr) bool { return f.defines(e, v) }) {
				loop = n
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
