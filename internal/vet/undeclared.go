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

// Undeclared finds bodies that use what another task declares, and their own does not.
var Undeclared = &analysis.Analyzer{
	Name: "undeclared",
	Doc: `find bodies that use what their tasks have not declared

	t.Spawn(func(*task.Task) error { sum = 1; return nil }, deps.Out(&sum))
	t.Spawn(func(*task.Task) error { fmt.Println(sum); return nil })

Nothing orders the two: the second needs deps.In(&sum). It is reported where it can be seen: both
bodies are written in place, in one function, no other access links the two tasks, they share no
channel or lock, and there is no Wait in between. A body that assigns what its task has as In is reported, too.`,
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

// isSpawn reports whether c makes one task, all of whose accesses are known.
func (c *call) isSpawn() bool {
	return (c.name == "Spawn" || c.name == "SpawnWith") && c.on != nil && len(c.bodies) == 1 && !c.opaque
}

// writesIn reports assignments of c's body to what its task reads.
func (f *function) writesIn(c *call) {
	for _, a := range c.accs {
		if a.writes() || a.data || !a.whole || c.of(a.v) != 1 {
			continue
		}
		for _, id := range f.uses[a.v] {
			if writes, _ := f.written(id); writes && f.bodyOf(id) == c.bodies[0] {
				f.pass.Reportf(id.Pos(), "the body assigns %s, and its task has declared %s", a.v.Name(), a.text())
				break
			}
		}
	}
}

// of is how many of c's accesses are of a variable, or of what it refers to.
func (c *call) of(v *types.Var) (n int) {
	for _, a := range c.accs {
		if a.v == v {
			n++
		}
	}
	return n
}

// missing reports what c's body uses, other tasks of the same parent declare, and c does not.
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
				if a.data { // of a slice: its elements
					writes, may = f.element(id)
				}
				if !may && (writes || a.writes()) {
					f.pass.Reportf(id.Pos(), "the body uses %s, which the task in %s declares, %s, and its own task does not: nothing orders the two",
						a.v.Name(), f.line(other), a.text())
					return
				}
			}
		}
	}
}

// siblings returns the other tasks that c's parent makes in the same function; none if not all of
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

// linked reports whether accesses to the same variables lead from one task to another, over any of
// those in list.
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

// waits reports whether something in the function may wait between two calls: a method whose name
// says so, or any other use of the task than to spawn.
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
	// The two are alternatives.
	return f.branch(a, b)
}

// synchronized reports whether the bodies of two calls share a channel, or a lock or the like, by
// which they may be ordered: a variable, or a part of one.
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

// synchronizes reports whether a use of a variable is one of a channel or of a lock, or leads to
// such a field or element.
func (f *function) synchronizes(e ast.Expr) bool {
	for !synchronizes(f.pass.TypesInfo.TypeOf(e)) {
		switch up := f.up[e].(type) {
		case *ast.SelectorExpr:
			s := f.pass.TypesInfo.Selections[up]
			if s == nil || up.X != e {
				return false
			}
			if s.Kind() != types.FieldVal { // of a lock that is embedded
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

// loopAround returns the outermost loop of their function that both calls are in; nil if there is
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

// branch reports whether two calls are in different branches of a statement, or one is under a
// condition that the other is not: the program may see to it that only one is made.
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

// outside reports whether v is declared outside of c, in the function.
func (f *function) outside(v *types.Var, c *call) bool {
	return f.decl.Pos() <= v.Pos() && v.Pos() < f.decl.End() && (v.Pos() < c.Pos() || c.End() <= v.Pos())
}

// bodyOf returns the body of a task that a node is in: the innermost one that a call with accesses
// has; nil if in none.
func (f *function) bodyOf(n ast.Node) *ast.FuncLit {
	for ; n != nil; n = f.up[n] {
		for _, c := range f.calls {
			if n == ast.Node(c.CallExpr) {
				return nil // in its accesses
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

// element reports whether a use of a slice changes an element of it. All that is not plainly a look
// at an element or its change may be anything.
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
