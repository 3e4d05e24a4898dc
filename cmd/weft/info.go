// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"weft/comm"
	"weft/internal/fabric/mpi"
	"weft/internal/fabric/mux"
	"weft/internal/fabric/tcp"
	"weft/internal/histogram"
	"weft/internal/launch"
	"weft/internal/launch/bind"
	"weft/internal/vigil"
	"weft/nam"
	"weft/task"
	"weft/trace"
)

// variable is an environment variable of weft.
type variable struct {
	name     string
	meaning  string
	standard func() string      // the value where the variable is not set
	check    func(string) error // what is wrong with a value; nil: nothing can be
}

var variables = []variable{
	{comm.EnvRanks, "ranks of a program that does not say how many", func() string { return "1" }, comm.CheckRanks},
	{comm.EnvSurvive, "1: the other ranks go on when one dies", func() string { return "0" }, onOff},
	{comm.EnvSpare, "1: a rank has a processor of Go's to spare for what comes while it computes", func() string { return "0" }, onOff},
	{task.EnvWorkers, "slots of a task runtime that does not say how many", func() string { return strconv.Itoa(task.DefaultWorkers()) }, within(1, 4096)},
	{task.EnvWindow, "live tasks of a runtime before spawning waits", func() string { return strconv.Itoa(task.DefaultWindow) }, within(2, 1<<30)},
	{task.EnvDebug, "1: look for accesses that are declared wrongly", func() string { return "0" }, onOff},
	{task.EnvLint, "1: show the race detector the declared order; weft lint sets it", func() string { return "0" }, onOff},
	{task.EnvWatchdog, "report tasks that wait for so long", func() string { return "0" }, task.CheckWatchdog},
	{trace.EnvFile, "file for a recording of tasks and messages; a timeline if it ends in .json", none, nil},
	{nam.EnvDir, "directory of the store of network-attached memory", nam.DefaultDir, nil},
	{comm.EnvCollectives, "algorithms of collectives between processes", none, comm.CheckCollectives},
	{comm.EnvStats, "file for the counters of messages, by communicator and peer", none, nil},
	{comm.EnvDeadlock, "warnings before a run ends in which all ranks wait for each other; -1: never ends", func() string { return "0" }, within(-1, math.MaxInt)},
	{histogram.EnvOn, "1: print a histogram of messages at the end", func() string { return "0" }, checkHistogram(histogram.EnvOn)},
	{histogram.EnvMin, "upper limit of its first bin, in bytes", func() string { return strconv.Itoa(histogram.DefaultMin) }, checkHistogram(histogram.EnvMin)},
	{histogram.EnvMax, "from where on messages are in its last bin, in bytes", func() string { return strconv.Itoa(histogram.DefaultMax) }, checkHistogram(histogram.EnvMax)},
	{histogram.EnvShift, "bits from the limit of one bin to the next", func() string { return strconv.Itoa(histogram.DefaultShift) }, checkHistogram(histogram.EnvShift)},
	{histogram.EnvTypes, "types of connections that it counts", func() string { return "all" }, checkHistogram(histogram.EnvTypes)},
	{mux.EnvOrder, "fabrics between processes, the best first", func() string { return strings.Join(mux.Names, ",") }, checkFabrics(mux.EnvOrder)},
	{mux.Env("shm"), "priority of shared memory; 0: not to be used", func() string { return "1" }, checkFabrics(mux.Env("shm"))},
	{mux.Env("mpi"), "priority of an MPI library", func() string { return "1" }, checkFabrics(mux.Env("mpi"))},
	{mux.Env("tcp"), "priority of TCP", func() string { return "1" }, checkFabrics(mux.Env("tcp"))},
	{mpi.EnvUse, "1: take part in an MPI job; 0: do not, even if an MPI launcher has started the program", none, mpi.CheckUse},
	{mpi.EnvSleep, "longest sleep between two looks at an MPI library", mpi.DefaultSleep.String, mpi.CheckSleep},
	{comm.EnvSingleCopy, "from how many bytes on a message within a node is one copy by the kernel", func() string { return strconv.Itoa(comm.DefaultSingleCopy) }, comm.CheckSingleCopy},
	{tcp.EnvNetwork, "networks that TCP uses: interfaces, addresses or prefixes", none, tcp.CheckNetworks},
	{tcp.EnvCert, "certificate for TLS between ranks", none, checkTLS},
	{tcp.EnvKey, "its private key", none, checkTLS},
	{tcp.EnvCA, "certificates of those who have signed the others'", none, checkTLS},
	{vigil.Env, "how long a machine that has vanished goes unnoticed at most", vigil.Default.String, vigil.Check},
	{tcp.EnvRetry, "how often a connection is tried again", func() string { return strconv.Itoa(tcp.DefaultRetry) }, comm.CheckRetry},
	{bind.Env, "what weft run binds ranks to", func() string { return "auto" }, checkBind},
	{launch.EnvBound, "processors that a launcher has bound this process to", none, nil},
	{launch.EnvRank, "the rank that a launcher has started this process as", none, checkStarted},
	{launch.EnvJob, "directory of the job that a launcher has started this process in", none, checkStarted},
	{launch.EnvNode, "number of the emulated node; ranks with different ones behave as on different nodes", none, launch.CheckNode},
}

// none is the value of what is not there.
func none() string { return "-" }

func within(least, most int) func(string) error {
	return func(value string) error {
		switch n, err := strconv.Atoi(value); {
		case err == nil && n >= least && n <= most:
		case most == math.MaxInt:
			return fmt.Errorf("must be a number, %d or more", least)
		default:
			return fmt.Errorf("must be a number, %d to %d", least, most)
		}
		return nil
	}
}

func onOff(value string) error {
	if value != "0" && value != "1" {
		return errors.New("must be 0 or 1")
	}
	return nil
}

func checkTLS(string) error {
	_, err := tcp.TLSFromEnv(os.Getenv)
	return err
}

func checkFabrics(name string) func(string) error {
	return func(string) error { return mux.Check(name, os.Getenv) }
}

func checkHistogram(name string) func(string) error {
	return func(string) error { return histogram.Check(name, os.Getenv) }
}

func checkBind(value string) error {
	_, err := bind.Parse(value)
	return err
}

func checkStarted(string) error {
	_, err := launch.Detect()
	return err
}

// setting is a variable as it is here and now.
type setting struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Origin  string `json:"origin"` // environment, default, unknown
	Meaning string `json:"meaning,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// about is what "weft info" tells.
type about struct {
	Version   string        `json:"version"`
	Go        string        `json:"go"`
	Platform  string        `json:"platform"`
	CPUs      int           `json:"cpus"`
	Fabrics   []comm.Fabric `json:"fabrics"`
	Variables []setting     `json:"variables"`
}

func newInfo() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Show version, platform, fabrics and environment variables",
		Long: `info shows the version, the platform, the fabrics that carry messages between ranks with what they can do here, and the
environment variables that count: their values, where these come from (environment or default), and what is wrong with
them. It exits with status 1 if a variable cannot be used.

  FABRIC      its name
  CONNECTS    which ranks
  EAGER       bytes up to which a message is copied if no receive waits for it
  ORDERED     messages of one goroutine to one rank arrive in order
  ONE-SIDED   memory of the other rank can be read and written without its help
  SHARED      both ranks can map the same memory
  HERE        yes, or why it cannot be used`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printInfo(cmd.OutOrStdout(), collect(os.Environ()), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func collect(environ []string) about {
	a := about{Version: version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Fabrics: comm.Fabrics()}
	set := map[string]string{}
	for _, kv := range environ {
		if k, v, _ := strings.Cut(kv, "="); (strings.HasPrefix(k, "WEFT_") || isVariable(k)) && v != "" {
			set[k] = v
		}
	}
	for _, v := range variables {
		s := setting{Name: v.name, Meaning: v.meaning, Origin: "default"}
		if value, ok := set[v.name]; ok {
			s.Value, s.Origin = value, "environment"
			delete(set, v.name)
			if v.check != nil {
				if err := v.check(value); err != nil {
					s.Problem = err.Error()
				}
			}
		} else {
			s.Value = v.standard()
		}
		a.Variables = append(a.Variables, s)
	}
	// What is left begins with WEFT_: of other families, weft knows what it knows.
	var rest []string
	for k := range set {
		rest = append(rest, k)
	}
	slices.Sort(rest)
	for _, k := range rest {
		a.Variables = append(a.Variables, setting{Name: k, Value: set[k], Origin: "unknown", Problem: "no such variable"})
	}
	return a
}

func isVariable(name string) bool {
	return slices.ContainsFunc(variables, func(v variable) bool { return v.name == name })
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// version is what the build recorded: the module's version, and the commit.
func version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := b.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" {
				v += " " + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return v
}

func printInfo(out io.Writer, a about, asJSON bool) error {
	var bad []string
	for _, s := range a.Variables {
		if s.Problem != "" {
			bad = append(bad, fmt.Sprintf("%s=%q: %s", s.Name, s.Value, s.Problem))
		}
	}
	err := error(nil)
	if asJSON {
		err = printJSON(out, a)
	} else {
		fmt.Fprintf(out, "weft %s, %s, %s, %d CPUs\n\n", a.Version, a.Go, a.Platform, a.CPUs)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "FABRIC\tCONNECTS\tEAGER\tORDERED\tONE-SIDED\tSHARED\tHERE")
		for _, f := range a.Fabrics {
			here := "yes"
			if f.Library != "" {
				here += ", " + f.Library
			}
			if f.Problem != "" {
				here = f.Problem
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Name, f.Connects, size(int64(f.EagerLimit)), yesNo(f.Ordered), yesNo(f.OneSided), yesNo(f.SharedMemory), here)
		}
		_ = w.Flush()
		fmt.Fprintln(out)
		fmt.Fprintln(w, "VARIABLE\tVALUE\tFROM\tMEANING")
		for _, s := range a.Variables {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Name, s.Value, s.Origin, s.Meaning)
		}
		err = w.Flush()
	}
	if err == nil && len(bad) > 0 {
		err = fmt.Errorf("environment: %s", strings.Join(bad, "; "))
	}
	return err
}
