// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/packages"
)

// operators are the kinds of changes, in the order of the report.
var operators = []string{
	"condition", "boundary", "arithmetic", "drop", "swap", "atomic", "unlock", "wake", "error path", "force",
}

var (
	// Names of calls in this repository that wake a waiting goroutine.
	wakes = regexp.MustCompile(`^(?i)(wake|signal|broadcast|notify|unpark|unblock|ring|kick|poke|tell)`)
	// Names of calls that force data to disk.
	forces = regexp.MustCompile(`^(?i)(fsync|msync|fdatasync|syncfs|sync)`)
)

// site is a position in a file where an operator can change it: text replaces the bytes from begin
// to end.
type site struct {
	operator   string
	begin, end int // offsets
	text       string
	imports    string // a package that text needs in addition to the file's imports
}

// walker finds the sites of one file.
type walker struct {
	pkg   *packages.Package
	file  *token.File
	src   []byte
	sites []site
}

// sitesOf returns all sites of a file of pkg, roughly in the order of the file.
func sitesOf(pkg *packages.Package, f *ast.File, src []byte) []site {
	w := &walker{pkg: pkg, file: pkg.Fset.File(f.FileStart), src: src}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			// no constants and types; initial values of variables are code
			return n.Tok == token.VAR
		case *ast.IfStmt:
			w.condition(n.Cond)
			if w.isErrorTest(n.Cond) {
				w.replace("error path", n.Cond, "false && "+w.text(n.Cond))
			}
		case *ast.ForStmt:
			w.condition(n.Cond)
		case *ast.BinaryExpr:
			w.binary(n)
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				w.replace("condition", n, w.text(n.X))
			}
		case *ast.AssignStmt:
			w.assignment(n)
		case *ast.IncDecStmt:
			other := map[token.Token]string{token.INC: "--", token.DEC: "++"}[n.Tok]
			w.replace("arithmetic", n, w.text(n.X)+other)
		case *ast.ReturnStmt:
			w.results(n)
		case *ast.CallExpr:
			w.call(n)
		case *ast.BlockStmt:
			w.statements(n.List)
		case *ast.CaseClause:
			w.statements(n.Body)
		case *ast.CommClause:
			w.statements(n.Body)
		}
		return true
	})
	return w.sites
}

func (w *walker) offset(p token.Pos) int { return w.file.Offset(p) }
func (w *walker) text(n ast.Node) string { return string(w.src[w.offset(n.Pos()):w.offset(n.End())]) }

func (w *walker) replace(operator string, n ast.Node, text string) {
	w.sites = append(w.sites, site{operator: operator, begin: w.offset(n.Pos()), end: w.offset(n.End()), text: text})
}

func (w *walker) typeOf(x ast.Expr) types.Type {
	t := w.pkg.TypesInfo.TypeOf(x)
	if t == nil {
		return types.Typ[types.Invalid]
	}
	return types.Unalias(t)
}

func (w *walker) isConstant(x ast.Expr) bool { return w.pkg.TypesInfo.Types[x].Value != nil }

// condition negates a condition without an operator that binary would change.
func (w *walker) condition(c ast.Expr) {
	switch x := ast.Unparen(c).(type) {
	case nil, *ast.UnaryExpr:
		return
	case *ast.BinaryExpr:
		if x.Op != token.LAND && x.Op != token.LOR {
			return
		}
	}
	if !w.isConstant(c) {
		w.replace("condition", c, "!("+w.text(c)+")")
	}
}

var isError = types.Universe.Lookup("error").Type()

// isErrorTest reports whether c compares an error with nil by !=.
func (w *walker) isErrorTest(c ast.Expr) bool {
	b, ok := c.(*ast.BinaryExpr)
	return ok && b.Op == token.NEQ && w.pkg.TypesInfo.Types[b.Y].IsNil() && types.Identical(w.typeOf(b.X), isError)
}

var others = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR}, token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL}, token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.QUO},
	token.AND: {token.OR}, token.OR: {token.AND}, token.XOR: {token.OR}, token.AND_NOT: {token.AND}, token.SHL: {token.SHR}, token.SHR: {token.SHL},
}

func (w *walker) binary(n *ast.BinaryExpr) {
	if w.isConstant(n) {
		return
	}
	operator := "arithmetic"
	switch n.Op {
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		operator = "boundary"
	case token.EQL, token.NEQ:
		operator = "condition"
	case token.LAND, token.LOR:
		operator = "condition"
		w.replace("condition", n, w.text(n.X))
		w.replace("condition", n, w.text(n.Y))
	default:
		if b, ok := w.typeOf(n).Underlying().(*types.Basic); !ok || b.Info()&types.IsNumeric == 0 {
			return // concatenation of strings
		}
	}
	at := w.offset(n.OpPos)
	for _, o := range others[n.Op] {
		w.sites = append(w.sites, site{operator: operator, begin: at, end: at + len(n.Op.String()), text: o.String()})
	}
	for _, x := range []ast.Expr{n.X, n.Y} {
		if v := w.pkg.TypesInfo.Types[x].Value; v != nil && v.Kind() == constant.Int && operator != "arithmetic" {
			w.replace("boundary", x, "("+w.text(x)+"+1)")
			w.replace("boundary", x, "("+w.text(x)+"-1)")
		}
	}
}

func (w *walker) assignment(n *ast.AssignStmt) {
	op := map[token.Token]string{
		token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+=", token.MUL_ASSIGN: "/=", token.QUO_ASSIGN: "*=", token.OR_ASSIGN: "&=", token.AND_ASSIGN: "|=",
		token.AND_NOT_ASSIGN: "|=", token.SHL_ASSIGN: ">>=", token.SHR_ASSIGN: "<<=", token.XOR_ASSIGN: "|=",
	}[n.Tok]
	if b, ok := w.typeOf(n.Lhs[0]).Underlying().(*types.Basic); op != "" && ok && b.Info()&types.IsNumeric != 0 {
		w.sites = append(w.sites, site{operator: "arithmetic", begin: w.offset(n.TokPos), end: w.offset(n.TokPos) + len(n.Tok.String()), text: op})
	}
}

// results replaces a returned error by nil.
func (w *walker) results(n *ast.ReturnStmt) {
	if len(n.Results) == 0 {
		return
	}
	last := n.Results[len(n.Results)-1]
	if !w.pkg.TypesInfo.Types[last].IsNil() && types.Identical(w.typeOf(last), isError) {
		w.replace("error path", last, "error(nil)")
	}
}

// statements drops each statement of a list, and swaps neighbours.
func (w *walker) statements(list []ast.Stmt) {
	for i, s := range list {
		if operator, text := w.dropped(s); operator != "" {
			w.replace(operator, s, text)
		}
		if i > 0 && isPlain(list[i-1]) && isPlain(s) && w.text(s) != w.text(list[i-1]) {
			a := list[i-1]
			between := string(w.src[w.offset(a.End()):w.offset(s.Pos())])
			w.sites = append(w.sites, site{operator: "swap", begin: w.offset(a.Pos()), end: w.offset(s.End()), text: w.text(s) + between + w.text(a)})
		}
	}
}

// isPlain reports whether s may be swapped with its neighbour: it has effects at this point, and
// declares nothing for other statements.
func isPlain(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt:
		return true
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE
	}
	return false
}

// dropped returns the replacement of a dropped statement and the operator; "" if the statement must
// stay.
func (w *walker) dropped(s ast.Stmt) (operator, text string) {
	// the lines below the statement keep their numbers
	lines := strings.Repeat("\n", strings.Count(w.text(s), "\n"))
	switch s := s.(type) {
	case *ast.ExprStmt:
		return w.kindOfCall(s.X), "{" + lines + "}"
	case *ast.DeferStmt:
		return w.kindOfCall(s.Call), "{" + lines + "}"
	case *ast.GoStmt, *ast.IncDecStmt:
		return "drop", "{" + lines + "}"
	case *ast.SendStmt:
		return "wake", "{" + lines + "}"
	case *ast.BranchStmt:
		if s.Tok == token.CONTINUE || s.Tok == token.BREAK {
			return "drop", "{}"
		}
	case *ast.ReturnStmt:
		if len(s.Results) == 0 {
			return "drop", "{}"
		}
	case *ast.AssignStmt:
		switch {
		case s.Tok == token.DEFINE:
		case s.Tok == token.ASSIGN && len(s.Rhs) == 1 && len(s.Lhs) == 1:
			if w.text(s.Lhs[0]) != "_" {
				return "drop", "_ = " + w.text(s.Rhs[0])
			}
		case s.Tok != token.ASSIGN:
			return "drop", "{" + lines + "}"
		}
	}
	return "", ""
}

func (w *walker) kindOfCall(x ast.Expr) string {
	c, ok := ast.Unparen(x).(*ast.CallExpr)
	if !ok {
		if u, ok := x.(*ast.UnaryExpr); ok && u.Op == token.ARROW {
			return "drop"
		}
		return ""
	}
	switch name := nameOf(c.Fun); {
	case name == "panic":
		return "error path"
	case name == "Unlock" || name == "RUnlock" || name == "unlock":
		return "unlock"
	case name == "close" || wakes.MatchString(name):
		return "wake"
	case forces.MatchString(name):
		return "force"
	}
	return "drop"
}

func nameOf(f ast.Expr) string {
	switch f := ast.Unparen(f).(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// call replaces an atomic operation by plain loads and stores, and drops calls that force data to
// disk.
func (w *walker) call(c *ast.CallExpr) {
	sel, ok := ast.Unparen(c.Fun).(*ast.SelectorExpr)
	if !ok {
		return
	}
	if forces.MatchString(sel.Sel.Name) && types.Identical(w.typeOf(c), isError) {
		w.replace("force", c, "error(nil)")
		return
	}
	m, ok := w.pkg.TypesInfo.Selections[sel]
	if !ok || m.Obj().Pkg() == nil || m.Obj().Pkg().Path() != "sync/atomic" || m.Kind() != types.MethodVal {
		return
	}
	params := m.Type().(*types.Signature).Params()
	if params.Len() == 0 || strings.HasPrefix(types.TypeString(m.Recv(), nil), "sync/atomic.Value") {
		return
	}
	t := types.TypeString(params.At(0).Type(), func(p *types.Package) string {
		if p == w.pkg.Types {
			return ""
		}
		return p.Name()
	})
	x := "&" + w.text(sel.X)
	if _, isPointer := w.typeOf(sel.X).Underlying().(*types.Pointer); isPointer {
		x = w.text(sel.X)
	}
	var args []string
	for _, a := range c.Args {
		args = append(args, w.text(a))
	}
	p := fmt.Sprintf("(*%s)(unsafe.Pointer(%s))", t, x)
	var text string
	switch sel.Sel.Name {
	case "Store":
		text = fmt.Sprintf("func(v %s) { *%s = v }(%s)", t, p, args[0])
	case "Add":
		text = fmt.Sprintf("func(d %s) %s { p := %s; *p += d; return *p }(%s)", t, t, p, args[0])
	case "Or", "And":
		op := map[string]string{"Or": "|=", "And": "&="}[sel.Sel.Name]
		text = fmt.Sprintf("func(d %s) %s { p := %s; old := *p; *p %s d; return old }(%s)", t, t, p, op, args[0])
	case "Swap":
		text = fmt.Sprintf("func(v %s) %s { p := %s; old := *p; *p = v; return old }(%s)", t, t, p, args[0])
	case "CompareAndSwap":
		text = fmt.Sprintf("func(old, v %s) bool { p := %s; is := *p == old; if is { *p = v }; return is }(%s)", t, p, strings.Join(args, ", "))
	default:
		return
	}
	w.sites = append(w.sites, site{operator: "atomic", begin: w.offset(c.Pos()), end: w.offset(c.End()), text: text, imports: "unsafe"})
}
