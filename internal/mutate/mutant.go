// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// A mutant is a small change of one file.
type mutant struct {
	Number   int
	Package  string // import path
	File     string // with slashes, relative to the root
	Line     int
	Lines    [2]int // first and last changed line, for the coverage
	Operator string
	Diff     string

	src []byte // the changed file
}

// part is the code of one package, and its sites.
type part struct {
	path  string
	dir   string // relative to the root, with ./
	lines int
	sites map[string][]location // by operator
	left  int                   // number of sites that have not been drawn
}

// location is a site with its file.
type location struct {
	site
	file string
	src  []byte
	node *ast.File
}

// load reads the packages and finds the sites of some operators. Files for other systems, tests and
// explorations are excluded. If only is not empty, all other files are excluded, too.
func load(root string, patterns, only, kinds []string) ([]*part, error) {
	list, err := packages.Load(&packages.Config{
		Dir: root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedExportFile |
			packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedTypesInfo,
	}, patterns...)
	if err != nil {
		return nil, err
	}
	var parts []*part
	for _, pkg := range list {
		if len(pkg.Errors) > 0 {
			return nil, fmt.Errorf("%s: %w", pkg.PkgPath, pkg.Errors[0])
		}
		p := &part{path: pkg.PkgPath, sites: map[string][]location{}}
		for i, f := range pkg.Syntax {
			name, err := filepath.Rel(root, pkg.CompiledGoFiles[i])
			if err != nil || strings.HasPrefix(name, "..") { // made by the Go command
				continue
			}
			name = filepath.ToSlash(name)
			p.dir = "./" + filepath.ToSlash(filepath.Dir(name))
			if len(only) > 0 && !slices.Contains(only, name) || ast.IsGenerated(f) {
				continue
			}
			src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
			if err != nil {
				return nil, err
			}
			p.lines += bytes.Count(src, []byte{'\n'})
			for _, s := range sitesOf(pkg, f, src) {
				if slices.Contains(kinds, s.operator) {
					p.sites[s.operator] = append(p.sites[s.operator], location{s, name, src, f})
					p.left++
				}
			}
		}
		if p.left > 0 {
			parts = append(parts, p)
		}
	}
	return parts, nil
}

// enough is the number of mutants that a small part needs for a meaningful score. With six, a
// single survivor makes 83 %.
const enough = 24

// quotas distributes n mutants over the parts. Large parts get more; a small part gets enough, or
// an equal share of n if that is less. The sum may exceed n.
func quotas(parts []*part, n int) []int {
	sum := 0.0
	for _, p := range parts {
		sum += math.Sqrt(float64(p.lines))
	}
	list := make([]int, len(parts))
	for i, p := range parts {
		by := int(math.Ceil(float64(n) * math.Sqrt(float64(p.lines)) / sum))
		list[i] = min(p.left, max(by, min(enough, n/len(parts))))
	}
	return list
}

// draw removes a random site. An operator is drawn with a probability proportional to the square
// root of its number of sites.
func (p *part) draw(rng *rand.Rand) (location, bool) {
	sum := 0.0
	for _, o := range operators {
		sum += math.Sqrt(float64(len(p.sites[o])))
	}
	if sum == 0 {
		return location{}, false
	}
	at := rng.Float64() * sum
	last := ""
	for _, o := range operators {
		if len(p.sites[o]) == 0 {
			continue
		}
		last = o
		if at -= math.Sqrt(float64(len(p.sites[o]))); at < 0 {
			break
		}
	}
	list := p.sites[last]
	i := rng.IntN(len(list))
	x := list[i]
	list[i] = list[len(list)-1]
	p.sites[last], p.left = list[:len(list)-1], p.left-1
	return x, true
}

// mutant makes the change.
func (p *part) mutant(x location) *mutant {
	m := &mutant{Package: p.path, File: x.file, Operator: x.operator}
	line := func(at int) int { return 1 + bytes.Count(x.src[:at], []byte{'\n'}) }
	m.Line, m.Lines = line(x.begin), [2]int{line(x.begin), line(x.end)}
	m.src = slices.Concat(x.src[:x.begin], []byte(x.text), x.src[x.end:])
	m.Diff = diff(x.src, m.src)
	if x.imports != "" && !slices.ContainsFunc(x.node.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == strconv.Quote(x.imports) }) {
		at := int(x.node.Name.End() - x.node.FileStart)
		m.src = slices.Concat(m.src[:at], []byte("; import "+strconv.Quote(x.imports)), m.src[at:])
	}
	return m
}

// diff returns the lines in which a and b differ.
func diff(a, b []byte) string {
	x, y := strings.Split(string(a), "\n"), strings.Split(string(b), "\n")
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	var s strings.Builder
	for _, l := range x {
		s.WriteString("-" + l + "\n")
	}
	for _, l := range y {
		s.WriteString("+" + l + "\n")
	}
	return s.String()
}
