// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package env knows the names of all environment variables of weft, and says which names in an
// environment mean nothing:
//
//	for _, line := range env.Strange(os.Environ()) { ... }
//	env.Warn(logger, os.Stderr) // what a program does, by task.New and comm.Main: once per job
//
// A new variable needs a row in [Table] and one in docs/environment.md; tests compare them.
// What is legal, and what an unset variable means, the package says that reads it.
package env

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
)

// Meaning returns the line of a variable; "" if there is no such variable.
func Meaning(name string) string {
	for _, v := range Table {
		if v.Name == name {
			return v.Meaning
		}
	}
	return ""
}

// Strange returns, sorted, the names in an environment that are meant for weft and mean nothing
// to it: all others that begin with WEFT_, those of ParaStation MPI that weft does not have, and
// near misses of weft's. An empty value is the same as none.
func Strange(environ []string) []string {
	var list []string
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if value != "" && Problem(name) != "" && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// Problem says what is wrong with a name; "" if nothing is, or it is none of weft's business.
func Problem(name string) string {
	if len(name) < 4 || Meaning(name) != "" || strings.HasPrefix(name, testPrefix) {
		return ""
	}
	if rest, ok := strings.CutPrefix(name, "PSP_"); ok && ofParaStation(rest) {
		if other := instead[rest]; other != "" {
			return "ParaStation MPI's, which weft does not have; weft has " + other
		}
		return "ParaStation MPI's, which weft does not have"
	}
	near := nearest(name)
	if upper := strings.ToUpper(name); Meaning(upper) != "" {
		near = upper
	}
	switch {
	case near != "":
		return "no such variable; did you mean " + near + "?"
	case strings.HasPrefix(name, "WEFT_"):
		return "no such variable"
	}
	return ""
}

func ofParaStation(rest string) bool {
	return slices.ContainsFunc(paraStation, func(p string) bool { return rest == p || strings.HasPrefix(rest, p+"_") })
}

// nearest returns the variable that a name is most likely meant to be; "" if it is like none. A
// name of another family has to be very like: it may well be somebody else's.
func nearest(name string) string {
	most := 1
	switch {
	case strings.HasPrefix(name, "WEFT_"):
		most = max(2, len(name)/4)
	case strings.HasPrefix(name, "PSP_") && len(name) > 10:
		most = 2
	case strings.HasPrefix(name, "PSP_"):
	case name[0] != 'W' || !strings.Contains(name, "_"):
		return ""
	}
	best := ""
	for _, v := range Table {
		if d := distance(name, v.Name); d <= most && (best == "" || d < distance(name, best)) {
			best = v.Name
		}
	}
	return best
}

// distance is how many letters are to be inserted, removed, replaced or exchanged with their
// neighbour to make b of a.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

var warned sync.Once

// Warn says which names in the environment of this process mean nothing, a line each: to a
// logger or, if that is nil, to w. It does so once in a process, and for a job by rank 0 only; of
// what weft run has reported it says nothing.
func Warn(logger *slog.Logger, w io.Writer) {
	warned.Do(func() {
		if !first(os.Getenv) {
			return
		}
		reported := strings.Split(os.Getenv(Reported), ",")
		for _, name := range Strange(os.Environ()) {
			switch {
			case slices.Contains(reported, name):
			case logger != nil:
				logger.Warn("environment variable", "name", name, "problem", Problem(name))
			default:
				fmt.Fprintln(w, Line(name))
			}
		}
	})
}

// Silent returns the names of which Warn says nothing in this process, since another one speaks for
// the job.
func Silent() []string {
	if Speaks() {
		return nil
	}
	return Strange(os.Environ())
}

// WarnOthers is Warn for what the process that speaks for its job has not itself: it is given what
// Silent returns at each rank.
func WarnOthers(logger *slog.Logger, w io.Writer, silent [][]string) {
	said := Strange(os.Environ())
	for rank, names := range silent {
		for _, name := range names {
			if slices.Contains(said, name) {
				continue
			}
			said = append(said, name)
			if logger != nil {
				logger.Warn("environment variable", "name", name, "problem", Problem(name), "rank", rank)
			} else {
				fmt.Fprintf(w, "%s (at rank %d)\n", Line(name), rank)
			}
		}
	}
}

// Line is what is said of a name that means nothing.
func Line(name string) string {
	return fmt.Sprintf("weft: environment variable %s: %s", name, Problem(name))
}

// Speaks reports whether this process is the one of its job to say what should be said once.
func Speaks() bool { return first(os.Getenv) }

// first reports whether this process speaks for its job: it is on its own, or rank 0.
func first(getenv func(string) string) bool {
	for _, name := range []string{"WEFT_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"} {
		if rank := getenv(name); rank != "" {
			return rank == "0"
		}
	}
	return true
}

// Variable is an environment variable of weft.
type Variable struct {
	Name    string
	Meaning string // a line for "weft info"
}

// Table has all variables, in the order of "weft info".
var Table = []Variable{
	{"WEFT_RANKS", "ranks of a program that does not say how many"},
	{"WEFT_SURVIVE", "1: the other ranks go on when one dies"},
	{"WEFT_SPARE", "1: a rank has a processor of Go's to spare for what comes while it computes"},
	{"WEFT_WORKERS", "slots of a task runtime that does not say how many"},
	{"WEFT_WINDOW", "live tasks of a runtime before spawning waits"},
	{"WEFT_DEBUG", "1: look for accesses that are declared wrongly"},
	{"WEFT_LINT", "1: show the race detector the declared order; weft lint sets it"},
	{"WEFT_WATCHDOG", "report tasks that wait for so long"},
	{"WEFT_TRACE", "file for a recording of tasks and messages; a timeline if it ends in .json"},
	{"WEFT_NAM_DIR", "directory of the store of network-attached memory"},
	{"WEFT_COLLECTIVES", "algorithms of collectives between processes"},
	{"WEFT_STATS", "file for the counters of messages, by communicator and peer"},
	{"PSP_DEADLOCK_WARNINGS", "warnings before a run ends in which all ranks wait for each other; -1: never ends"},
	{"PSP_HISTOGRAM", "1: print a histogram of messages at the end"},
	{"PSP_HISTOGRAM_MIN", "upper limit of its first bin, in bytes"},
	{"PSP_HISTOGRAM_MAX", "from where on messages are in its last bin, in bytes"},
	{"PSP_HISTOGRAM_SHIFT", "bits from the limit of one bin to the next"},
	{"PSP_HISTOGRAM_CONTYPE", "types of connections that it counts"},
	{"WEFT_FABRIC", "fabrics between processes, the best first"},
	{"PSP_SHM", "priority of shared memory; 0: not to be used"},
	{"PSP_MPI", "priority of an MPI library"},
	{"PSP_TCP", "priority of TCP"},
	{"WEFT_MPI", "1: take part in an MPI job; 0: do not, even if an MPI launcher has started the program"},
	{"WEFT_MPI_SLEEP", "longest sleep between two looks at an MPI library"},
	{"WEFT_SINGLE_COPY", "from how many bytes on a message within a node is one copy by the kernel"},
	{"PSP_NETWORK", "networks that TCP uses: interfaces, addresses or prefixes"},
	{"WEFT_TLS_CERT", "certificate for TLS between ranks"},
	{"WEFT_TLS_KEY", "its private key"},
	{"WEFT_TLS_CA", "certificates of those who have signed the others'"},
	{"WEFT_DEAD_AFTER", "how long a machine that has vanished goes unnoticed at most"},
	{"PSP_RETRY", "how often a connection is tried again"},
	{"WEFT_BIND", "what weft run binds ranks to"},
	{"WEFT_BOUND", "processors that a launcher has bound this process to"},
	{"WEFT_RANK", "the rank that a launcher has started this process as"},
	{"WEFT_JOB", "directory of the job that a launcher has started this process in"},
	{Reported, "names that the launcher has reported as unknown, which its ranks do not report again"},
	{"PSP_SMP_NODE_ID", "number of the emulated node; ranks with different ones behave as on different nodes"},
}

// Reported is set by weft run for its ranks: names, with commas between, that it has reported.
const Reported = "WEFT_REPORTED"

// testPrefix begins the names by which the tests of weft talk to processes that they start.
const testPrefix = "WEFT_TEST_"

// paraStation are the variables of ParaStation MPI (psmpi and pscom) that weft does not have,
// without their "PSP_". A name also stands for all that begin with it and an underscore. Old
// names are here as well: job scripts outlive versions.
var paraStation = []string{
	"ACCUMULATE_ORDERING", "COLLECTIVES", "COLLOPS", "COLLOPS_STATS", "COMPRESSOR_PLUGINS", "CUDA",
	"DAPL", "DEBUG", "DIRECT_CONNECT", "ELAN", "EXTOLL", "FINALIZE", "GATEWAY", "GM", "GUARD", "GW",
	"HARD_ABORT", "HCOLL", "INFO", "IPROBE_COUNT", "KEEP_CONNECTIONS", "LAZY_DISCONNECT", "LIB",
	"LIGHTWEIGHT_INIT_BARRIER", "MALLOC", "MSA", "MVAPI", "MXM", "NBC_PROGRESS_DELAY", "OFED",
	"ONDEMAND", "OPENIB", "P4S", "P4SOCK", "PLUGINDIR", "PMI_VERSION", "PORTALS", "PORTALS4",
	"PRECON", "PSM", "READAHEAD", "RENDEZVOUS", "RMA_EXPLICIT_WAIT", "SCHED_YIELD", "SHAREDMEM",
	"SHM", "SHUTDOWN_TIMEOUT", "SIGQUIT", "SIGSEGV", "SIGSUSPEND", "SMP_AWARENESS", "SMP_AWARE_COLLOPS", "SO_RCVBUF", "SO_SNDBUF",
	"TCP", "UCC", "UCP", "UNEXPECTED_RECEIVES", "VELO",
}

// instead says what weft has in place of one of them, also without its "PSP_".
var instead = map[string]string{
	"SHAREDMEM":        "PSP_SHM",
	"RENDEZVOUS":       "Config.EagerLimit of package comm",
	"COLLOPS_STATS":    "WEFT_STATS",
	"MSA_NODE_ID":      "PSP_SMP_NODE_ID",
	"SHUTDOWN_TIMEOUT": "WEFT_DEAD_AFTER",
}
