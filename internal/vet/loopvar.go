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

// LoopVar finds accesses to variables of which each iteration of a loop has its own.
var LoopVar = &analysis.Analyzer{
	Name: "loopvar",
	Doc: `find accesses to variables of loops

Each iteration of a loop has variables of its own. In

	for _, b := range blocks {
		t.Spawn(body, deps.InOut(&b))
	}

each task names a copy of a block, which no other task can name: the access orders nothing. Name the
element, deps.InOut(&blocks[i]). If other tasks or statements of the iteration use the variable, too, nothing is
reported, unless the loop is repeated and the copies refer to the same memory.`,
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
		f.pass.Reportf(a.expr.Pos(), "%s names %s, a new variable in each iteration, so no other task can name it; %s", a.text(), a.v.Name(), hint)
	}
}

// mayBeMeant reports whether an access to a variable of a loop may be correct: something else in
// the iteration uses the variable after the task, or may keep its address; or the task only reads
// the variable, whose memory is nowhere else.
func (f *function) mayBeMeant(a *access, loop ast.Stmt) bool {
	if !a.writes() && !shares(a.v.Type()) {
		return true
	}
	var last *call // the last call that has the access
	names := 0     // number of calls with accesses to the variable
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

// inCall reports whether a node is a part of a call that has accesses.
func (f *function) inCall(n ast.Node) bool {
	return slices.ContainsFunc(f.calls, func(c *call) bool { return within(n, c) })
}

// repeated reports whether a loop is inside another loop of its function that contains no wait.
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

// loopOf returns the loop that declares v; nil if there is none. elements is the expression that
// the loop ranges over, if v is a copy of its elements and these have addresses.
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

// defines reports whether an expression declares v.
func (f *function) defines(e ast.Expr, v *types.Var) bool {
	id, ok := e.(*ast.Ident)
	return ok && f.pass.TypesInfo.Defs[id] == v
}
