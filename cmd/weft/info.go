// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"weft/comm"
	"weft/internal/env"
)

// setting is the current value of an environment variable.
type setting struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Origin  string `json:"origin"` // environment, default, unknown
	Meaning string `json:"meaning,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// about is the output of "weft info".
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
		Long: `info shows the version, the platform, the fabrics that carry messages between ranks, and the environment variables of weft:
their values, the origins of the values (environment or default), and what is wrong with them.
It exits with status 1 if a variable has an illegal value.

  FABRIC      the name
  CONNECTS    the ranks that it connects
  EAGER       the largest message that is copied if no receive waits for it
  SHARED      whether both ranks can map the same memory
  HERE        yes, or why this machine or build cannot use it`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printInfo(cmd.OutOrStdout(), collect(), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func collect() about {
	a := about{Version: version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Fabrics: comm.Fabrics()}
	for _, v := range env.Table {
		s := setting{Name: v.Name, Meaning: v.Meaning, Value: v.Text(), Origin: "environment"}
		if s.Value == "" {
			s.Value, s.Origin = v.Standard(), "default"
		} else if err := v.Problem(); err != nil {
			s.Problem = err.Error()
		}
		a.Variables = append(a.Variables, s)
	}
	for _, name := range env.Unknown(env.All()) {
		a.Variables = append(a.Variables, setting{Name: name, Value: env.Get(name), Origin: "unknown", Problem: env.Problem(name)})
	}
	return a
}

// version returns the module's version or the commit, as recorded by the build.
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
		switch {
		case s.Problem == "":
		case s.Origin == "unknown":
			bad = append(bad, fmt.Sprintf("%s=%q: %s", s.Name, s.Value, s.Problem))
		default:
			bad = append(bad, s.Problem) // the text names the variable
		}
	}
	err := error(nil)
	if asJSON {
		err = printJSON(out, a)
	} else {
		fmt.Fprintf(out, "weft %s, %s, %s, %d CPUs\n\n", a.Version, a.Go, a.Platform, a.CPUs)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "FABRIC\tCONNECTS\tEAGER\tSHARED\tHERE")
		for _, f := range a.Fabrics {
			here := "yes"
			if f.Library != "" {
				here += ", " + f.Library
			}
			if f.Problem != "" {
				here = f.Problem
			}
			shared := map[bool]string{true: "yes", false: "no"}[f.SharedMemory]
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", f.Name, f.Connects, size(int64(f.EagerLimit)), shared, here)
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
