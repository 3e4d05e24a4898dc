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
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"weft/comm"
	"weft/internal/env"
	"weft/internal/fabric/mpi"
	"weft/internal/fabric/mux"
	"weft/internal/fabric/tcp"
	"weft/internal/friend"
	"weft/internal/histogram"
	"weft/internal/launch"
	"weft/internal/launch/bind"
	"weft/internal/vigil"
	"weft/nam"
	"weft/task"
	"weft/trace"
)

// variable is what there is to know of an environment variable besides its row in env.Table.
type variable struct {
	name     string
	standard func() string      // the value where the variable is not set
	check    func(string) error // what is wrong with a value; nil: nothing can be
}

var variables = []variable{
	{comm.EnvRanks, func() string { return "1" }, friend.Checks[comm.EnvRanks]},
	{comm.EnvSurvive, func() string { return "0" }, onOff},
	{comm.EnvSpare, func() string { return "0" }, onOff},
	{task.EnvWorkers, func() string { return strconv.Itoa(task.DefaultWorkers()) }, within(1, 4096)},
	{task.EnvWindow, func() string { return strconv.Itoa(task.DefaultWindow) }, within(2, 1<<30)},
	{task.EnvDebug, func() string { return "0" }, onOff},
	{task.EnvLint, func() string { return "0" }, onOff},
	{task.EnvWatchdog, func() string { return "0" }, friend.Checks[task.EnvWatchdog]},
	{trace.EnvFile, none, nil},
	{nam.EnvDir, nam.DefaultDir, nil},
	{comm.EnvCollectives, none, friend.Checks[comm.EnvCollectives]},
	{comm.EnvStats, none, nil},
	{comm.EnvDeadlock, func() string { return "0" }, within(-1, math.MaxInt)},
	{histogram.EnvOn, func() string { return "0" }, checkHistogram(histogram.EnvOn)},
	{histogram.EnvMin, func() string { return strconv.Itoa(histogram.DefaultMin) }, checkHistogram(histogram.EnvMin)},
	{histogram.EnvMax, func() string { return strconv.Itoa(histogram.DefaultMax) }, checkHistogram(histogram.EnvMax)},
	{histogram.EnvShift, func() string { return strconv.Itoa(histogram.DefaultShift) }, checkHistogram(histogram.EnvShift)},
	{histogram.EnvTypes, func() string { return "all" }, checkHistogram(histogram.EnvTypes)},
	{mux.EnvOrder, func() string { return strings.Join(mux.Names, ",") }, checkFabrics(mux.EnvOrder)},
	{mux.Env("shm"), func() string { return "1" }, checkFabrics(mux.Env("shm"))},
	{mux.Env("mpi"), func() string { return "1" }, checkFabrics(mux.Env("mpi"))},
	{mux.Env("tcp"), func() string { return "1" }, checkFabrics(mux.Env("tcp"))},
	{mpi.EnvUse, none, mpi.CheckUse},
	{mpi.EnvSleep, mpi.DefaultSleep.String, mpi.CheckSleep},
	{comm.EnvSingleCopy, func() string { return strconv.Itoa(comm.DefaultSingleCopy) }, friend.Checks[comm.EnvSingleCopy]},
	{tcp.EnvNetwork, none, tcp.CheckNetworks},
	{tcp.EnvCert, none, checkTLS},
	{tcp.EnvKey, none, checkTLS},
	{tcp.EnvCA, none, checkTLS},
	{vigil.Env, vigil.Default.String, vigil.Check},
	{tcp.EnvRetry, func() string { return strconv.Itoa(tcp.DefaultRetry) }, friend.Checks[tcp.EnvRetry]},
	{bind.Env, func() string { return "auto" }, checkBind},
	{launch.EnvBound, none, launch.CheckBound},
	{launch.EnvRank, none, checkStarted},
	{launch.EnvJob, none, checkStarted},
	{env.Reported, none, nil},
	{launch.EnvNode, none, launch.CheckNode},
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
		k, v, _ := strings.Cut(kv, "=")
		set[k] = v
	}
	for _, v := range variables {
		s := setting{Name: v.name, Meaning: env.Meaning(v.name), Origin: "default"}
		if value := set[v.name]; value != "" {
			s.Value, s.Origin = value, "environment"
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
	for _, name := range env.Strange(environ) {
		a.Variables = append(a.Variables, setting{Name: name, Value: set[name], Origin: "unknown", Problem: env.Problem(name)})
	}
	return a
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
