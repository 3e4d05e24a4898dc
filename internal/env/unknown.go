// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// known reports whether a name is a variable of weft's.
func known(name string) bool {
	return slices.ContainsFunc(Table, func(v *Variable) bool { return v.Name == name })
}

// Unknown returns, sorted, the names in an environment that are meant for weft but have no meaning:
// unknown names that begin with WEFT_, variables of ParaStation MPI that weft does not have, and
// misspelt names of weft's variables. A variable with an empty value counts as not set.
func Unknown(environ []string) []string {
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

// Problem says what is wrong with a name; "" if it is a variable of weft's or not meant for weft.
func Problem(name string) string {
	if len(name) < 4 || known(name) || strings.HasPrefix(name, testPrefix) {
		return ""
	}
	if rest, ok := strings.CutPrefix(name, "PSP_"); ok && ofParaStation(rest) {
		problem := "ParaStation MPI's, which weft does not have"
		if other := instead[rest]; other != "" {
			problem += "; weft has " + other
		}
		return problem
	}
	near := nearest(name)
	if upper := strings.ToUpper(name); known(upper) {
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

// nearest returns the variable that a name is most likely meant to be; "" if none is similar. A
// name that does not begin with WEFT_ must be very similar: it may well belong to another program.
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

// distance returns how many letters must be inserted, removed, replaced, or exchanged with their
// neighbour to turn a into b.
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

// Warn reports the unknown names in the environment of this process, a line each: to a logger or,
// if that is nil, to w. It does so once in a process, and in a job only at rank 0. It omits names
// that weft run has reported.
func Warn(logger *slog.Logger, w io.Writer) {
	warned.Do(func() {
		if !IsReporter() {
			return
		}
		reported := strings.Split(Reported.Text(), ",")
		for _, name := range Unknown(All()) {
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

// Silent returns the unknown names that Warn does not report in this process, because another
// process reports for the job.
func Silent() []string {
	if IsReporter() {
		return nil
	}
	return Unknown(All())
}

// WarnOthers reports the unknown names of other ranks that this process, which reports for the job,
// does not have itself. silent has the results of Silent by rank.
func WarnOthers(logger *slog.Logger, w io.Writer, silent [][]string) {
	reported := Unknown(All())
	for rank, names := range silent {
		for _, name := range names {
			if slices.Contains(reported, name) {
				continue
			}
			reported = append(reported, name)
			if logger != nil {
				logger.Warn("environment variable", "name", name, "problem", Problem(name), "rank", rank)
			} else {
				fmt.Fprintf(w, "%s (at rank %d)\n", Line(name), rank)
			}
		}
	}
}

// Line returns the warning about an unknown name.
func Line(name string) string {
	return fmt.Sprintf("weft: environment variable %s: %s", name, Problem(name))
}

// IsReporter reports whether this process writes the warnings that its job should write once: it is
// not in a job, or is rank 0.
func IsReporter() bool {
	for _, l := range Launchers {
		if rank := Get(l.Rank); rank != "" {
			return rank == "0"
		}
	}
	return true
}

// RankAndSize returns the rank of this process and the number of ranks; -1 and 1 if it is not in a
// job.
func RankAndSize() (rank, ranks int) {
	for _, l := range Launchers[:len(Launchers)-1] {
		// without srun, which sets the variables for any program
		r, err := strconv.Atoi(Get(l.Rank))
		n, err2 := strconv.Atoi(Get(l.Ranks))
		if err == nil && err2 == nil && n > 0 {
			return r, n
		}
	}
	return -1, 1
}

// testPrefix begins the names of variables with which weft's tests control processes that they
// start.
const testPrefix = "WEFT_TEST_"

// paraStation has the variables of ParaStation MPI (psmpi and pscom) that weft does not have,
// without their "PSP_". A name also stands for all names that begin with it and an underscore.
// Names of old versions are included, since job scripts outlive versions.
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

// instead maps some of them, also without "PSP_", to what weft has instead.
var instead = map[string]string{
	"SHAREDMEM":        "PSP_SHM",
	"RENDEZVOUS":       "Config.EagerLimit of package comm",
	"COLLOPS_STATS":    "WEFT_STATS",
	"MSA_NODE_ID":      "PSP_SMP_NODE_ID",
	"SHUTDOWN_TIMEOUT": "WEFT_DEAD_AFTER",
}
