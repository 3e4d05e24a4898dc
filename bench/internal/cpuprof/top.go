// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package cpuprof

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// A share is the flat time of one function or one group.
type share struct {
	name  string
	group string
	nanos int64
}

// Top prints the n functions with the most flat time, then the flat time of each group of packages.
// Flat time is time in the function's own instructions; an inlined function counts as itself, an
// atomic operation as its caller's.
func Top(w io.Writer, p *profile.Profile, n int) error {
	funcs, groups, total := flat(p)
	if total == 0 {
		_, err := fmt.Fprintln(w, "cpu profile: no samples")
		return err
	}
	percent := func(v int64) float64 { return 100 * float64(v) / float64(total) }
	fmt.Fprintf(w, "cpu profile: %v in weft's samples\n\n%8s  %6s  %-8s  %s\n", time.Duration(total).Round(time.Millisecond),
		"flat", "flat%", "group", "function")
	for _, f := range funcs[:min(n, len(funcs))] {
		fmt.Fprintf(w, "%8s  %5.1f%%  %-8s  %s\n", short(f.nanos), percent(f.nanos), f.group, f.name)
	}
	fmt.Fprintf(w, "\n%8s  %6s  %s\n", "flat", "flat%", "group")
	var err error
	for _, g := range groups {
		_, err = fmt.Fprintf(w, "%8s  %5.1f%%  %s\n", short(g.nanos), percent(g.nanos), g.name)
	}
	return err
}

func short(nanos int64) string {
	return fmt.Sprintf("%.2fs", time.Duration(nanos).Seconds())
}

// flat adds up the samples by innermost function, and by group, both in order of falling time.
func flat(p *profile.Profile) (funcs, groups []share, total int64) {
	value := len(p.SampleType) - 1 // the runtime's profiles are samples/count, cpu/nanoseconds
	byFunc, byGroup := map[string]int64{}, map[string]int64{}
	for _, s := range p.Sample {
		name := leaf(s)
		byFunc[name] += s.Value[value]
		byGroup[Group(name)] += s.Value[value]
		total += s.Value[value]
	}
	for name, v := range byFunc {
		funcs = append(funcs, share{name: name, group: Group(name), nanos: v})
	}
	for name, v := range byGroup {
		groups = append(groups, share{name: name, nanos: v})
	}
	order := func(a, b share) int {
		return cmp.Or(cmp.Compare(b.nanos, a.nanos), cmp.Compare(a.name, b.name))
	}
	slices.SortFunc(funcs, order)
	slices.SortFunc(groups, order)
	return funcs, groups, total
}

// leaf names the function that a sample is charged to: the innermost one, inlined or not. An atomic
// instruction is charged to its caller, which is what a reader wants to know.
func leaf(s *profile.Sample) string {
	name := "?"
	for _, loc := range s.Location {
		// from the leaf outwards, and so are the lines of functions inlined at one location
		for _, line := range loc.Line {
			if line.Function == nil {
				continue
			}
			name = line.Function.Name
			switch packageOf(name) {
			case "sync/atomic", "internal/runtime/atomic", "weft/internal/xatomic":
			default:
				return name
			}
		}
	}
	return name
}

// Group names the part of the program that a function belongs to: a package of weft by its own name
// (deps, task, comm, …), user for the bodies of the benchmarks and of the example programs, runtime
// for Go's runtime and the packages that are its front (sync, atomic), and otherwise the function's
// package path.
func Group(function string) string {
	pkg := packageOf(function)
	switch {
	case pkg == "main", within(pkg, "weft/bench"), within(pkg, "weft/examples"):
		return "user"
	case strings.HasPrefix(pkg, "weft/"):
		first, _, _ := strings.Cut(strings.TrimPrefix(pkg, "weft/"), "/")
		return first
	case within(pkg, "runtime"), within(pkg, "internal/runtime"), within(pkg, "sync"), within(pkg, "internal/sync"),
		pkg == "internal/bytealg", pkg == "internal/cpu", pkg == "":
		return "runtime"
	default:
		return pkg
	}
}

func within(pkg, root string) bool {
	return pkg == root || strings.HasPrefix(pkg, root+"/")
}

// packageOf cuts "weft/task.(*worker).run" to "weft/task". Assembly without a package (memeqbody,
// gogo) has none.
func packageOf(function string) string {
	function, _, _ = strings.Cut(function, "[") // type arguments may contain slashes and dots
	slash := strings.LastIndexByte(function, '/') + 1
	dot := strings.IndexByte(function[slash:], '.')
	if dot < 0 {
		return ""
	}
	return function[:slash+dot]
}
