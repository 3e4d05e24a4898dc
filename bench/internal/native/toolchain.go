// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package native

// A Toolchain builds programs of one programming model for one run-time library.
type Toolchain struct {
	Name     string   // of the peer, and of the library
	Compiler string   // looked up in PATH
	Suffix   string   // program + Suffix is the source's name
	Flags    []string // before the source
	Libs     []string // after it
	Needs    string   // packages to install if it is missing, with the names of Debian and Ubuntu

	// probe is a short program. If it cannot be built, the library is missing; otherwise a failed
	// build is a mistake in our sources.
	probe string
}

// All programs are built with the same flags, except for the library. With fused multiply-adds the
// kernels in C would execute fewer instructions than those in Go.
var common = []string{"-O2", "-ffp-contract=off"}

const (
	openmpSuffix = "_openmp.c"
	openmpProbe  = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"
)

// The tool chains for the sources in bench/peers.
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

// Toolchains returns all tool chains, in the order of the peers.
func Toolchains() []*Toolchain { return []*Toolchain{Libgomp, Libomp, TBB} }
