// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package weft_test

import (
	"flag"
	"fmt"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

var updateAPI = flag.Bool("update-api", false, "write docs/api instead of comparing")

// surface returns the exported names of a package, one line each.
func surface(p *types.Package) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	name := func(q *types.Package) string {
		if q == p {
			return ""
		}
		return q.Path()
	}
	text := func(t types.Type) string { return types.TypeString(t, name) }
	for _, n := range p.Scope().Names() {
		obj := p.Scope().Lookup(n)
		if !obj.Exported() {
			continue
		}
		t, isType := obj.(*types.TypeName)
		if !isType {
			line := types.ObjectString(obj, name)
			if c, ok := obj.(*types.Const); ok {
				line = fmt.Sprintf("const %s %s", n, text(c.Type()))
			}
			add("%s", line)
			continue
		}
		if t.IsAlias() {
			add("type %s = %s", n, text(types.Unalias(t.Type())))
			continue
		}
		named := t.Type().(*types.Named)
		what := n + params(named, text)
		switch u := named.Underlying().(type) {
		case *types.Struct:
			add("type %s struct", what)
			for f := range u.Fields() {
				if f.Exported() {
					add("type %s struct, %s %s", n, f.Name(), text(f.Type()))
				}
			}
		case *types.Interface:
			add("type %s interface", what)
			for e := range u.EmbeddedTypes() {
				add("type %s interface, of %s", n, text(e))
			}
			for m := range u.ExplicitMethods() {
				if m.Exported() {
					add("type %s interface, %s%s", n, m.Name(), strings.TrimPrefix(text(m.Type()), "func"))
				} else {
					add("type %s interface, of this package only", n)
				}
			}
			continue
		default:
			add("type %s %s", what, text(u))
		}
		for m := range types.NewMethodSet(types.NewPointer(named)).Methods() {
			if m.Obj().Exported() {
				add("method (%s) %s%s", n, m.Obj().Name(), strings.TrimPrefix(text(m.Type()), "func"))
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

func params(t *types.Named, text func(types.Type) string) string {
	var list []string
	for p := range t.TypeParams().TypeParams() {
		list = append(list, p.Obj().Name()+" "+text(p.Constraint()))
	}
	if list == nil {
		return ""
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// The exported names of the public packages are listed in docs/api: a change of them is visible in
// its diff.
func TestAPI(t *testing.T) {
	var paths []string
	for _, p := range public {
		paths = append(paths, "./"+p)
	}
	all, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedImports | packages.NeedExportFile | packages.NeedTypes}, paths...)
	require.NoError(t, err)
	require.Len(t, all, len(public))
	for _, p := range all {
		require.Empty(t, p.Errors, p.PkgPath)
		lines := surface(p.Types)
		file := filepath.Join("docs", "api", p.Name+".txt")
		is := strings.Join(lines, "\n") + "\n"
		if *updateAPI {
			require.NoError(t, os.WriteFile(file, []byte(is), 0o644))
			continue
		}
		assert.Equal(t, read(t, file), is, "%s: if the change is meant, go test . -run TestAPI -update-api", file)
		shown := slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, modulePath+"/internal/") })
		assert.Empty(t, shown, "%s shows users types that they cannot name", p.PkgPath)
	}
}
