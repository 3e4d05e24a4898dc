// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package native

// A Toolchain builds programs of one programming model for one run-time library.
type Toolchain struct {
	Name     string   // of the peer: the library's
	Compiler string   // looked up in PATH
	Suffix   string   // program + Suffix is the source's name
	Flags    []string // before the source
	Libs     []string // after it
	Needs    string   // packages to install where it is missing, as Debian and Ubuntu call them

	// probe is a program of a few lines that tells a missing library from a mistake in our sources.
	probe string
}

// All programs are built alike but for the library. A fused multiply-add would make the kernels of
// the C programs do less than those in Go.
var common = []string{"-O2", "-ffp-contract=off"}

const (
	openmpSuffix = "_openmp.c"
	openmpProbe  = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"
)

// The tool chains that we have sources for.
var (
	Libgomp = &Toolchain{
		Name: "libgomp", Compiler: "gcc", Suffix: openmpSuffix, probe: openmpProbe,
		Flags: append([]string{"-std=gnu11", "-fopenmp"}, common...), Libs: []string{"-lm"},
		Needs: "gcc and libc6-dev",
	}
	Libomp = &Toolchain{
		Name: "libomp", Compiler: "clang", Suffix: openmpSuffix, probe: openmpProbe,
		Flags: append([]string{"-std=gnu11", "-fopenmp", "-fopenmp-version=50"}, common...), Libs: []string{"-lm"},
		Needs: "clang and libomp-dev",
	}
	TBB = &Toolchain{
		Name: "tbb", Compiler: "g++", Suffix: "_tbb.cpp",
		probe: "#include <tbb/task_group.h>\nint main() { tbb::task_group g; g.run([] {}); g.wait(); }\n",
		Flags: append([]string{"-std=c++17", "-pthread"}, common...), Libs: []string{"-ltbb"},
		Needs: "g++ and libtbb-dev (oneTBB, 2021 or later)",
	}
)

// Toolchains returns all of them, in the order in which peers are listed.
func Toolchains() []*Toolchain { return []*Toolchain{Libgomp, Libomp, TBB} }
