// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

const depsPath = "weft/deps"

// access is an expression that makes a deps.Access of a named variable.
type access struct {
	mode string // In, Out, InOut, …
	expr ast.Expr
	of   ast.Expr   // the named expression: the variable, or an element or field of it
	v    *types.Var // the variable at the root of that expression
	// data: the named memory is not in the variable itself, but in memory that it refers to
	data bool
	// whole: all of the variable, or all that it refers to, is named, not an element or a field
	whole bool
	weak  bool
}

func (a *access) writes() bool { return a.mode != "In" }

// call is the call of a function that takes accesses: Spawn, or one like it.
type call struct {
	*ast.CallExpr
	name   string
	on     *types.Var     // the receiver variable; nil if there is none
	in     ast.Node       // the function that contains the call: a FuncDecl or FuncLit
	bodies []*ast.FuncLit // its arguments that are function literals
	accs   []*access
	opaque bool // it has accesses that are not visible here, or attributes that order it
}

// function is a declared function, with its calls and accesses.
type function struct {
	pass  *analysis.Pass
	decl  *ast.FuncDecl
	calls []*call
	accs  []*access // all accesses, including those outside of calls
	// uses are the uses of each variable, in their order.
	uses map[*types.Var][]*ast.Ident
	// up is each node's parent.
	up map[ast.Node]ast.Node
}

// run returns an Analyzer.Run that calls check for each function that has accesses.
func run(check func(*function)) func(*analysis.Pass) (any, error) {
	return func(pass *analysis.Pass) (any, error) {
		if !slices.ContainsFunc(pass.Pkg.Imports(), func(p *types.Package) bool { return p.Path() == depsPath }) {
			return nil, nil
		}
		for _, file := range pass.Files {
			for _, d := range file.Decls {
				if decl, ok := d.(*ast.FuncDecl); ok && decl.Body != nil {
					if f := newFunction(pass, decl); len(f.accs) > 0 {
						check(f)
					}
				}
			}
		}
		return nil, nil
	}
}

func newFunction(pass *analysis.Pass, decl *ast.FuncDecl) *function {
	f := &function{pass: pass, decl: decl, uses: map[*types.Var][]*ast.Ident{}, up: map[ast.Node]ast.Node{}}
	seen := map[ast.Expr]*access{}
	ast.PreorderStack(decl, nil, func(n ast.Node, above []ast.Node) bool {
		if len(above) > 0 {
			f.up[n] = above[len(above)-1]
		}
		switch n := n.(type) {
		case *ast.Ident:
			if v, ok := pass.TypesInfo.Uses[n].(*types.Var); ok && !v.IsField() {
				f.uses[v] = append(f.uses[v], n)
			}
		case *ast.CallExpr:
			if a := f.access(n); a != nil && seen[a.of] == nil {
				seen[a.of] = a // not again without its Weak
				f.accs = append(f.accs, a)
			}
			if c := f.call(n); c != nil {
				f.calls = append(f.calls, c)
			}
		}
		return true
	})
	return f
}

// callee returns the called function of package deps; nil if it belongs to another package or is
// not known.
func (f *function) callee(c *ast.CallExpr) *types.Func {
	fn, _ := typeutil.Callee(f.pass.TypesInfo, c).(*types.Func)
	if fn == nil || fn.Pkg() == nil || fn.Pkg().Path() != depsPath {
		return nil
	}
	return fn
}

// isAccess reports whether a type is deps.Access.
func isAccess(t types.Type) bool {
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Name() == "Access" && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == depsPath
}

// access returns the access that an expression makes; nil if it is no access, or names nothing that
// is visible here.
func (f *function) access(e ast.Expr) *access {
	c, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok || !isAccess(f.pass.TypesInfo.TypeOf(c)) {
		return nil
	}
	fn := f.callee(c)
	if fn == nil {
		return nil
	}
	if fn.Signature().Recv() == nil { // deps.In(&x)
		if len(c.Args) != 1 {
			return nil
		}
		return f.named(fn.Name(), c, c.Args[0])
	}
	sel, ok := ast.Unparen(c.Fun).(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	if fn.Name() == "Weak" {
		a := f.access(sel.X)
		if a != nil {
			a.expr, a.weak = e, true
		}
		return a
	}
	// deps.Slice(s).In()
	s, ok := ast.Unparen(sel.X).(*ast.CallExpr)
	if !ok || len(s.Args) != 1 {
		return nil
	}
	if fn := f.callee(s); fn == nil || fn.Name() != "Slice" {
		return nil
	}
	a := f.variable(s.Args[0])
	if a == nil {
		return nil
	}
	if _, cut := ast.Unparen(s.Args[0]).(*ast.SliceExpr); !cut {
		// otherwise variable has set data, unless the operand is an array
		a.data = true
	}
	a.mode, a.expr = fn.Name(), e
	return a
}

// named returns an access to the memory that a pointer expression points to.
func (f *function) named(mode string, e, pointer ast.Expr) *access {
	pointer = ast.Unparen(pointer)
	var a *access
	if u, ok := pointer.(*ast.UnaryExpr); ok && u.Op == token.AND {
		a = f.variable(u.X)
	} else if id, ok := pointer.(*ast.Ident); ok {
		if v, ok := f.pass.TypesInfo.Uses[id].(*types.Var); ok {
			a = &access{v: v, data: true, whole: true, of: id}
		}
	}
	if a != nil {
		a.mode, a.expr = mode, e
	}
	return a
}

// variable returns the access that an expression stands for: the variable at its root, and whether
// it leaves the variable's memory. It returns nil if the expression has no such variable.
func (f *function) variable(e ast.Expr) *access {
	info := f.pass.TypesInfo
	a := &access{of: e, whole: true}
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.Ident:
			var ok bool
			if a.v, ok = info.Uses[x].(*types.Var); !ok {
				return nil
			}
			return a
		case *ast.SelectorExpr:
			s := info.Selections[x]
			if s == nil || s.Kind() != types.FieldVal {
				return nil
			}
			a.whole = false
			a.data = a.data || s.Indirect()
			e = x.X
		case *ast.IndexExpr:
			a.whole = false
			switch info.TypeOf(x.X).Underlying().(type) {
			case *types.Array:
			case *types.Slice, *types.Pointer:
				a.data = true
			default:
				return nil
			}
			e = x.X
		case *ast.SliceExpr:
			a.whole = a.whole && x.Low == nil && x.High == nil
			if _, isArray := info.TypeOf(x.X).Underlying().(*types.Array); !isArray {
				a.data = true
			}
			e = x.X
		case *ast.StarExpr:
			a.data = true
			e = x.X
		default:
			return nil
		}
	}
}

// call returns a call that takes accesses; nil for other calls.
func (f *function) call(c *ast.CallExpr) *call {
	fn, ok := f.pass.TypesInfo.TypeOf(c.Fun).(*types.Signature)
	if !ok || !fn.Variadic() {
		return nil
	}
	last := fn.Params().Len() - 1
	s, ok := fn.Params().At(last).Type().(*types.Slice)
	if !ok || !isAccess(s.Elem()) || len(c.Args) < last {
		return nil
	}
	x := &call{CallExpr: c, in: f.inside(c)}
	if sel, ok := ast.Unparen(c.Fun).(*ast.SelectorExpr); ok {
		x.name = sel.Sel.Name
		if id, ok := ast.Unparen(sel.X).(*ast.Ident); ok {
			x.on, _ = f.pass.TypesInfo.Uses[id].(*types.Var)
		}
	}
	for _, arg := range c.Args[:last] {
		switch arg := ast.Unparen(arg).(type) {
		case *ast.FuncLit:
			x.bodies = append(x.bodies, arg)
		case *ast.CompositeLit: // attributes
			for _, e := range arg.Elts {
				kv, ok := e.(*ast.KeyValueExpr)
				if !ok || !slices.Contains([]string{"Label", "Priority", "Cost"}, fmt.Sprint(kv.Key)) {
					x.opaque = true
				}
			}
		case *ast.BasicLit:
		default:
			switch f.pass.TypesInfo.TypeOf(arg).Underlying().(type) {
			case *types.Basic, *types.Signature: // numbers, texts and bodies do not order tasks
			default:
				x.opaque = true
			}
		}
	}
	accs := c.Args[last:]
	if c.Ellipsis.IsValid() {
		lit, ok := ast.Unparen(c.Args[last]).(*ast.CompositeLit)
		if !ok {
			x.opaque = true
			return x
		}
		accs = lit.Elts
	}
	for _, e := range accs {
		if a := f.access(e); a != nil {
			x.accs = append(x.accs, a)
		} else {
			x.opaque = true
		}
	}
	return x
}

// inside returns the innermost function that contains a node.
func (f *function) inside(n ast.Node) ast.Node {
	for n = f.up[n]; n != nil; n = f.up[n] {
		switch n.(type) {
		case *ast.FuncLit, *ast.FuncDecl:
			return n
		}
	}
	return f.decl
}

// within reports whether a node is a part of another.
func within(n, of ast.Node) bool { return of.Pos() <= n.Pos() && n.End() <= of.End() }

// line returns the line of a node, for messages.
func (f *function) line(n ast.Node) string {
	return fmt.Sprintf("line %d", f.pass.Fset.Position(n.Pos()).Line)
}

// text is the source of an access.
func (a *access) text() string { return types.ExprString(a.expr) }

// refers returns the kind of a variable that refers to other memory; "" if v does not.
func refers(v *types.Var) string {
	if _, any := types.Unalias(v.Type()).(*types.TypeParam); any {
		return ""
	}
	switch v.Type().Underlying().(type) {
	case *types.Slice:
		return "slice"
	case *types.Pointer:
		return "pointer"
	case *types.Map:
		return "map"
	case *types.Chan:
		return "channel"
	case *types.Interface:
		return "interface"
	}
	if b, ok := v.Type().Underlying().(*types.Basic); ok && b.Info()&types.IsString != 0 {
		return "string"
	}
	return ""
}

// written reports whether a use of a variable changes the variable itself, and whether it may: its
// address is taken, but not for an access.
func (f *function) written(id *ast.Ident) (writes, may bool) {
	var n ast.Node = id
	for {
		up := f.up[n]
		switch x := up.(type) {
		case *ast.ParenExpr:
		case *ast.SelectorExpr:
			if s := f.pass.TypesInfo.Selections[x]; s == nil || n != x.X {
				return false, false
			} else if s.Kind() != types.FieldVal { // a method that may take the address
				_, pointer := s.Obj().(*types.Func).Signature().Recv().Type().(*types.Pointer)
				_, already := f.pass.TypesInfo.TypeOf(x.X).Underlying().(*types.Pointer)
				return false, pointer && !already
			} else if s.Indirect() {
				return false, false
			}
		case *ast.IndexExpr:
			if _, isArray := f.pass.TypesInfo.TypeOf(x.X).Underlying().(*types.Array); !isArray || n != x.X {
				return false, false
			}
		case *ast.SliceExpr:
			_, isArray := f.pass.TypesInfo.TypeOf(x.X).Underlying().(*types.Array)
			return false, isArray && !f.inAccess(up)
		case *ast.UnaryExpr:
			return false, x.Op == token.AND && !f.inAccess(up)
		case *ast.AssignStmt:
			return slices.Contains(x.Lhs, n.(ast.Expr)), false
		case *ast.IncDecStmt:
			return true, false
		case *ast.RangeStmt:
			return x.Tok == token.ASSIGN && (x.Key == n || x.Value == n), false
		default:
			return false, false
		}
		n = up
	}
}

// inAccess reports whether a node is the argument of an access.
func (f *function) inAccess(n ast.Node) bool {
	c, ok := f.up[n].(*ast.CallExpr)
	return ok && f.callee(c) != nil
}
