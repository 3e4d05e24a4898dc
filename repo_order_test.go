// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package weft_test

import (
	"go/ast"
	"go/types"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

// Bounds for a package without its tests. Lines of comments do not count. A package should be
// readable file by file, users before the used: at most one in maxBackward references between files
// may point against the best order.
const (
	maxBackward = 8
	maxFiles    = 40
	maxLines    = 5200
)

// references returns the names of a package's files, and which files refer to which: to a
// package-level name or a method that the other file declares.
func references(p *packages.Package) (files []string, to [][]bool) {
	at := map[string]int{}
	for _, f := range p.CompiledGoFiles {
		at[f] = len(files)
		files = append(files, filepath.Base(f))
	}
	to = make([][]bool, len(files))
	for i := range to {
		to[i] = make([]bool, len(files))
	}
	for id, obj := range p.TypesInfo.Uses {
		if obj.Pkg() != p.Types || obj.Parent() != p.Types.Scope() && !isMethod(obj) {
			continue
		}
		from, known := at[p.Fset.Position(id.Pos()).Filename]
		by, ours := at[p.Fset.Position(obj.Pos()).Filename]
		if known && ours && from != by {
			to[from][by] = true
		}
	}
	return files, to
}

func isMethod(obj types.Object) bool {
	f, ok := obj.(*types.Func)
	return ok && f.Signature().Recv() != nil
}

// best returns an order of files with few backward references, their number, and the number of all
// references. It stops once at most one in maxBackward points back. Otherwise, no single move, and
// none of many random ones, improves the result.
func best(to [][]bool) (order []int, back, all int) {
	n := len(to)
	for i := range n {
		order = append(order, i)
		for j := range n {
			if to[i][j] {
				all++
			}
		}
	}
	rng := rand.New(rand.NewPCG(1, 2)) // the same numbers each time
	settle(to, order)
	back = backward(to, order)
	for i := 0; i < 10*n && back > all/maxBackward; i++ {
		next := slices.Clone(order)
		for range 1 + rng.IntN(4) {
			move(next, rng.IntN(n), rng.IntN(n))
		}
		settle(to, next)
		if b := backward(to, next); b <= back {
			order, back = next, b
		}
	}
	return order, back, all
}

// backward counts the backward references: those to a file that is earlier in the order.
func backward(to [][]bool, order []int) (n int) {
	for i, x := range order {
		for _, y := range order[:i] {
			if to[x][y] {
				n++
			}
		}
	}
	return n
}

// settle moves single files to their best position until no move helps.
func settle(to [][]bool, order []int) {
	for better := true; better; {
		better = false
		for at := range order {
			x := order[at]
			gain, where := 0, at
			for _, step := range []int{-1, 1} {
				sum := 0
				for k := at + step; k >= 0 && k < len(order); k += step {
					y := order[k]
					fore, aft := to[y][x], to[x][y] // a reference y to x favours y before x
					if step > 0 {
						fore, aft = aft, fore
					}
					if aft {
						sum++
					}
					if fore {
						sum--
					}
					if sum > gain {
						gain, where = sum, k
					}
				}
			}
			if gain > 0 {
				move(order, at, where)
				better = true
			}
		}
	}
}

// move moves an element from one index to another.
func move(list []int, from, to int) {
	x := list[from]
	if from < to {
		copy(list[from:to], list[from+1:])
	} else {
		copy(list[to+1:from+1], list[to:])
	}
	list[to] = x
}

// loadTyped loads and type-checks all packages, without tests, once.
var loadTyped = sync.OnceValues(func() ([]*packages.Package, error) {
	return packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedExportFile |
			packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo,
		Env: append(os.Environ(), "GOOS=linux", "GOARCH=amd64"), // the same files everywhere
	}, "./...")
})

func typed(t *testing.T) []*packages.Package {
	t.Helper()
	all, err := loadTyped()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, p := range all {
		require.Empty(t, p.Errors, p.PkgPath)
	}
	return all
}

// A fabric describes its abilities by its methods and its data (Caps, Costs): no code asserts that
// a value of an interface of package fabric has other methods.
func TestFabricsHaveNoOptionalMethods(t *testing.T) {
	isFabric := func(p *packages.Package, x ast.Expr) bool {
		named, ok := p.TypesInfo.TypeOf(x).(*types.Named)
		return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == modulePath+"/internal/fabric"
	}
	interfaces := 0
	for _, p := range typed(t) {
		for _, f := range p.Syntax {
			ast.Inspect(f, func(n ast.Node) bool {
				a, ok := n.(*ast.TypeAssertExpr)
				if !ok || !isFabric(p, a.X) {
					return true
				}
				interfaces++
				assert.False(t, a.Type == nil || types.IsInterface(p.TypesInfo.TypeOf(a.Type)), "%s: use a method of the interface, or fabric.Caps or fabric.Costs, instead", p.Fset.Position(n.Pos()))
				return true
			})
		}
	}
	require.Positive(t, interfaces, "comm asserts the type of its own handler, for example")
}

func TestOrderWithinPackages(t *testing.T) {
	all := typed(t)
	sources := slices.DeleteFunc(goFiles(t), func(f *goFile) bool { return f.test })
	for _, p := range all {
		name := strings.TrimPrefix(p.PkgPath, modulePath+"/")
		files, to := references(p)
		order, back, refs := best(to)
		every, lines := 0, 0 // files and lines for all builds
		for _, f := range sources {
			if path.Join(modulePath, path.Dir(f.path)) == p.PkgPath {
				every++
				for line := range strings.Lines(read(t, f.path)) {
					if !strings.HasPrefix(strings.TrimSpace(line), "//") {
						lines++
					}
				}
			}
		}
		var list []string
		for _, i := range order {
			list = append(list, files[i])
		}
		bound := func(what string, n, legal int) {
			assert.LessOrEqual(t, n, legal, "%s: %d %s. The best order found is %v", name, n, what, list)
		}
		bound("references against the order", back, refs/maxBackward)
		bound("files", every, maxFiles)
		bound("lines", lines, maxLines)
		if testing.Verbose() {
			t.Logf("%-40s %2d files %5d lines %3d references, %2d back", name, every, lines, refs, back)
		}
	}
}

// best on known graphs: an ordered graph has no backward reference, a cycle of n files has one, and
// a complete graph has half of all.
func TestBestOrder(t *testing.T) {
	for name, row := range map[string]struct {
		n          int
		refers     func(i, j int) bool
		back, refs int
	}{
		"one file":    {1, func(int, int) bool { return false }, 0, 0},
		"in order":    {9, func(i, j int) bool { return i*5%9 > j*5%9 }, 0, 36},
		"a circle":    {9, func(i, j int) bool { return j == (i+1)%9 }, 1, 9},
		"enough":      {16, func(i, j int) bool { return j == (i+1)%16 || i == 3 && j == 1 }, 2, 17},
		"all of all":  {9, func(i, j int) bool { return i != j }, 36, 72},
		"two circles": {8, func(i, j int) bool { return j%4 == (i+1)%4 && i/4 == j/4 }, 2, 8},
	} {
		to := make([][]bool, row.n)
		for i := range to {
			for j := range row.n {
				to[i] = append(to[i], row.refers(i, j))
			}
		}
		order, back, refs := best(to)
		require.Equal(t, []int{row.back, row.refs}, []int{back, refs}, name)
		require.Equal(t, back, backward(to, order), name)
		slices.Sort(order)
		for i, x := range order {
			require.Equal(t, i, x, name)
		}
	}
}
