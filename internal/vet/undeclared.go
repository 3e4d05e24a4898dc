// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Undeclared finds bodies that use an object that another task declares and their own task does
// not.
var Undeclared = &analysis.Analyzer{
	Name: "undeclared",
	Doc: `find bodies that use what their tasks do not declare

	t.Spawn(func(*task.Task) error { sum = 1; return nil }, deps.Out(&sum))
	t.Spawn(func(*task.Task) error { fmt.Println(sum); return nil })

Nothing orders the two tasks: the second needs deps.In(&sum). This is reported if both bodies are written
in place, in one function, no other access links the two tasks, they share no channel or lock, and there is
no Wait between them. A body that assigns an object that its task declares as In is reported, too.`,
	Run: run((*function).undeclared),
}

func (f *function) undeclared() {
	for _, c := range f.calls {
		if c.isSpawn() {
			f.writesIn(c)
			f.missing(c)
		}
	}
}

// isSpawn reports whether c spawns one task with known accesses.
func (c *call) isSpawn() bool {
	return (c.name == "Spawn" || c.name == "SpawnWith") && c.on != nil && len(c.bodies) == 1 && !c.opaque
}

// writesIn reports assignments of c's body to objects that its task declares as In.
func (f *function) writesIn(c *call) {
	for _, a := range c.accs {
		if a.writes() || a.data || !a.whole || c.of(a.v) != 1 {
			continue
		}
		for _, id := range f.uses[a.v] {
			if writes, _ := f.written(id); writes && f.bodyOf(id) == c.bodies[0] {
				f.pass.Reportf(id.Pos(), "the body assigns %s, but its task declares %s", a.v.Name(), a.text())
				break
			}
		}
	}
}

// of returns how many of c's accesses name a variable, or what it refers to.
func (c *call) of(v *types.Var) (n int) {
	for _, a := range c.accs {
		if a.v == v {
			n++
		}
	}
	return n
}

// missing reports objects that c's body uses and that other tasks of the same parent declare, but c
// does not.
func (f *function) missing(c *call) {
	siblings := f.siblings(c)
	for _, other := range siblings {
		if linked(c, other, siblings) || f.waits(c, other) || f.synchronized(c, other) {
			continue
		}
		for _, a := range other.accs {
			if !a.whole || a.data && refers(a.v) != "slice" || !f.outside(a.v, c) {
				continue
			}
			for _, id := range f.uses[a.v] {
				if f.bodyOf(id) != c.bodies[0] {
					continue
				}
				writes, may := f.written(id)
				if a.data { // a slice: the object is its elements
					writes, may = f.element(id)
				}
				if !may && (writes || a.writes()) {
					f.pass.Reportf(id.Pos(), "the body uses %s, which its task does not declare, but the task in %s declares %s: nothing orders the two tasks",
						a.v.Name(), f.line(other), a.text())
					return
				}
			}
		}
	}
}

// siblings returns the other tasks that c's parent spawns in the same function; nil if not all of
// them are known.
func (f *function) siblings(c *call) (list []*call) {
	for _, x := range f.calls {
		if x.in != c.in || x.on != c.on || x == c {
			continue
		}
		if !x.isSpawn() {
			return nil
		}
		list = append(list, x)
	}
	return list
}

// linked reports whether a chain of accesses to common variables leads from one task to another,
// through any tasks in list.
func linked(from, to *call, list []*call) bool {
	met := []*call{from}
	for i := 0; i < len(met); i++ {
		for _, x := range list {
			if !slices.Contains(met, x) && slices.ContainsFunc(met[i].accs, func(a *access) bool { return x.of(a.v) > 0 }) {
				met = append(met, x)
			}
		}
	}
	return slices.Contains(met, to)
}

// waits reports whether something in the function may wait between two calls: any use of the task
// other than to spawn. It also returns true if the two calls are alternatives.
func (f *function) waits(a, b *call) bool {
	first, last := a, b
	if b.Pos() < a.Pos() {
		first, last = b, a
	}
	loop := f.loopAround(a, b)
	for _, id := range f.uses[a.on] {
		between := first.End() <= id.Pos() && id.Pos() < last.Pos() || loop != nil && within(id, loop)
		if !between || f.inside(id) != a.in {
			continue
		}
		if sel, ok := f.up[id].(*ast.SelectorExpr); !ok || !strings.HasPrefix(sel.Sel.Name, "Spawn") {
			return true
		}
	}
	// -
	return f.branch(a, b)
}

// synchronized reports whether the bodies of two calls share a channel, a lock or the like (a
// variable, or a part of one) that may order them.
func (f *function) synchronized(a, b *call) bool {
	for _, ids := range f.uses {
		in := func(c *call) bool {
			return slices.ContainsFunc(ids, func(id *ast.Ident) bool { return within(id, c.bodies[0]) && f.synchronizes(id) })
		}
		if in(a) && in(b) {
			return true
		}
	}
	return false
}

// synchronizes reports whether an expression is a channel or a lock, or leads to such a field or
// element.
func (f *function) synchronizes(e ast.Expr) bool {
	for !synchronizes(f.pass.TypesInfo.TypeOf(e)) {
		switch up := f.up[e].(type) {
		case *ast.SelectorExpr:
			s := f.pass.TypesInfo.Selections[up]
			if s == nil || up.X != e {
				return false
			}
			if s.Kind() != types.FieldVal { // a method of an embedded lock
				return synchronizes(s.Obj().(*types.Func).Signature().Recv().Type())
			}
		case *ast.IndexExpr:
			if up.X != e {
				return false
			}
		case *ast.ParenExpr, *ast.StarExpr:
		default:
			return false
		}
		e = f.up[e].(ast.Expr)
	}
	return true
}

func synchronizes(t types.Type) bool {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := types.Unalias(t).(*types.Named); ok && n.Obj().Pkg() != nil {
		switch n.Obj().Pkg().Path() {
		case "sync", "sync/atomic":
			return true
		case "weft/task":
			return n.Obj().Name() == "Mutex"
		}
	}
	_, ok := t.Underlying().(*types.Chan)
	return ok
}

// loopAround returns the outermost loop of the function that contains both calls; nil if there is
// none.
func (f *function) loopAround(a, b *call) (loop ast.Node) {
	for n := f.up[ast.Node(a.CallExpr)]; n != nil && n != a.in; n = f.up[n] {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			if within(b, n) {
				loop = n
			}
		}
	}
	return loop
}

// branch reports whether two calls are in different branches of a statement, or only one is under
// some condition. The program may then make only one of them.
func (f *function) branch(a, b *call) bool {
	for _, x := range [2][2]*call{{a, b}, {b, a}} {
		for n := f.up[ast.Node(x[0].CallExpr)]; n != nil && n != x[0].in; n = f.up[n] {
			switch n.(type) {
			case *ast.IfStmt, *ast.CaseClause, *ast.CommClause:
				i, ok := n.(*ast.IfStmt)
				if !within(x[1], n) || ok && i.Else != nil && within(x[0], i.Else) != within(x[1], i.Else) {
					return true
				}
			}
		}
	}
	return false
}

// outside reports whether v is declared in the function, outside of c.
func (f *function) outside(v *types.Var, c *call) bool {
	return f.decl.Pos() <= v.Pos() && v.Pos() < f.decl.End() && (v.Pos() < c.Pos() || c.End() <= v.Pos())
}

// bodyOf returns the innermost body of a task that contains a node; nil if there is none.
func (f *function) bodyOf(n ast.Node) *ast.FuncLit {
	for ; n != nil; n = f.up[n] {
		for _, c := range f.calls {
			if n == ast.Node(c.CallExpr) {
				return nil // among the call's accesses
			}
			for _, body := range c.bodies {
				if n == ast.Node(body) {
					return body
				}
			}
		}
	}
	return nil
}

// element reports whether a use of a slice changes an element, and whether it may. Any use that is
// not plainly a read or a change of an element may.
func (f *function) element(id *ast.Ident) (writes, may bool) {
	x, ok := f.up[id].(*ast.IndexExpr)
	if !ok || x.X != ast.Expr(id) {
		r, ok := f.up[id].(*ast.RangeStmt)
		return false, !ok || r.X != ast.Expr(id) || r.Value == nil
	}
	switch up := f.up[x].(type) {
	case *ast.AssignStmt:
		return slices.Contains(up.Lhs, ast.Expr(x)), false
	case *ast.IncDecStmt:
		return true, false
	case *ast.UnaryExpr, *ast.SelectorExpr, *ast.SliceExpr:
		return false, true
	}
	return false, false
}
