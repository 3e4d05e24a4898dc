// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"weft/comm"
	"weft/nam"
	"weft/task"
)

// variable is an environment variable of weft.
type variable struct {
	name     string
	meaning  string
	standard func() string // the value where the variable is not set
	number   int           // smallest legal number; 0: any text
	onOff    bool          // 0 or 1
}

var variables = []variable{
	{comm.EnvRanks, "ranks of a program that does not say how many", func() string { return "1" }, 1, false},
	{task.EnvWorkers, "slots of a task runtime that does not say how many", func() string { return strconv.Itoa(runtime.GOMAXPROCS(0)) }, 1, false},
	{task.EnvWindow, "live tasks of a runtime before spawning waits", func() string { return strconv.Itoa(task.DefaultWindow) }, 2, false},
	{task.EnvDebug, "1: look for accesses that are declared wrongly", func() string { return "0" }, 0, true},
	{nam.EnvDir, "directory of the store of network-attached memory", nam.DefaultDir, 0, false},
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
	Version   string    `json:"version"`
	Go        string    `json:"go"`
	Platform  string    `json:"platform"`
	CPUs      int       `json:"cpus"`
	Variables []setting `json:"variables"`
}

func newInfo() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Show version, platform and environment variables",
		Long: `info shows the version, the platform, and weft's environment variables: their values, where these come from
(environment or default), and what is wrong with them. It exits with status 1 if one cannot be used.`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printInfo(cmd.OutOrStdout(), collect(os.Environ()), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func collect(environ []string) about {
	a := about{Version: version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU()}
	set := map[string]string{}
	for _, kv := range environ {
		if k, v, _ := strings.Cut(kv, "="); strings.HasPrefix(k, "WEFT_") && v != "" {
			set[k] = v
		}
	}
	for _, v := range variables {
		s := setting{Name: v.name, Meaning: v.meaning, Origin: "default"}
		if value, ok := set[v.name]; ok {
			s.Value, s.Origin = value, "environment"
			delete(set, v.name)
			if n, err := strconv.Atoi(value); v.number > 0 && (err != nil || n < v.number) {
				s.Problem = fmt.Sprintf("must be a number, %d or more", v.number)
			}
			if v.onOff && value != "0" && value != "1" {
				s.Problem = "must be 0 or 1"
			}
		} else {
			s.Value = v.standard()
		}
		a.Variables = append(a.Variables, s)
	}
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
