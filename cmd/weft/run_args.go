// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/comm"
	"weft/internal/env"
	"weft/internal/launch"
	"weft/internal/launch/bind"
	"weft/internal/launch/job"
)

// runSpec is a job, and the file for -trace.
type runSpec struct {
	job.Spec
	trace string // the value of -trace; "": not given
}

// runOption is an option of "weft run".
type runOption struct {
	names []string
	value string // describes its value; "": it has none
	job   bool   // an option of the job: legal only before the first program
	set   func(spec *runSpec, part *job.Part, value string) error
}

var runOptions = []runOption{
	{[]string{"n", "np"}, "a number of ranks", false, func(_ *runSpec, p *job.Part, v string) (err error) {
		if p.Ranks, err = strconv.Atoi(v); err != nil || p.Ranks < 1 || p.Ranks > launch.MaxRanks {
			return fmt.Errorf("it must be a number of ranks, 1 to %d", launch.MaxRanks)
		}
		return nil
	}},
	{[]string{"wdir"}, "a directory", false, func(_ *runSpec, p *job.Part, v string) error {
		p.Dir = v
		return nonEmpty(v, "a directory")
	}},
	{[]string{"env"}, "NAME=VALUE", false, func(_ *runSpec, p *job.Part, v string) error {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			return fmt.Errorf("it must be NAME=VALUE")
		}
		p.Env = append(p.Env, v)
		return nil
	}},
	{[]string{"x"}, "NAME=VALUE or NAME", false, func(_ *runSpec, p *job.Part, v string) error {
		name, _, ok := strings.Cut(v, "=")
		switch {
		case name == "":
			return fmt.Errorf("it must be NAME=VALUE or NAME")
		case ok:
			p.Env = append(p.Env, v)
		case !slices.ContainsFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, name+"=") }):
			return fmt.Errorf("there is no such variable in the environment")
		}
		return nil
	}},
	{[]string{"l", "label"}, "", true, func(s *runSpec, _ *job.Part, _ string) error { s.Label = true; return nil }},
	{[]string{"o", "output"}, "a directory", true, func(s *runSpec, _ *job.Part, v string) error {
		s.OutputDir = v
		return nonEmpty(v, "a directory")
	}},
	{[]string{"bind"}, "what ranks are bound to", true, func(s *runSpec, _ *job.Part, v string) error {
		p, err := bind.Parse(v)
		s.Bind = &p
		return err
	}},
	{[]string{"v", "verbose"}, "", true, func(s *runSpec, _ *job.Part, _ string) error { s.Verbose = true; return nil }},
	{[]string{"trace"}, "a file", true, func(s *runSpec, _ *job.Part, v string) error { s.trace = v; return nonEmpty(v, "a file") }},
	{[]string{"keep-going"}, "", true, func(s *runSpec, _ *job.Part, _ string) error { s.KeepGoing = true; return nil }},
	{[]string{"timeout"}, "a time", true, func(s *runSpec, _ *job.Part, v string) (err error) { s.Timeout, err = parseTime(v); return err }},
	{[]string{"listen"}, "HOST:PORT", true, func(s *runSpec, _ *job.Part, v string) error { s.Listen = v; return nonEmpty(v, "HOST:PORT") }},
	{[]string{"elsewhere"}, "a number of ranks", true, func(s *runSpec, _ *job.Part, v string) (err error) {
		s.Elsewhere, err = parseNumber(v, "ranks", launch.MaxRanks)
		return err
	}},
	{[]string{"join"}, "HOST:PORT", true, func(s *runSpec, _ *job.Part, v string) error { s.Join = v; return nonEmpty(v, "HOST:PORT") }},
	{[]string{"first"}, "the number of a rank", true, func(s *runSpec, _ *job.Part, v string) (err error) {
		s.First, err = parseNumber(v, "the first rank", launch.MaxRanks-1)
		return err
	}},
	{[]string{"secret-file"}, "a file", true, func(s *runSpec, _ *job.Part, v string) error { s.SecretFile = v; return nonEmpty(v, "a file") }},
	{[]string{"wait"}, "a time", true, func(s *runSpec, _ *job.Part, v string) (err error) { s.Wait, err = parseTime(v); return err }},
	{[]string{"grace"}, "a time", true, func(s *runSpec, _ *job.Part, v string) (err error) { s.Grace, err = parseTime(v); return err }},
}

func nonEmpty(v, what string) error {
	if v == "" {
		return fmt.Errorf("it must be %s", what)
	}
	return nil
}

func parseNumber(v, what string, most int) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("it must be the number of %s, 1 to %d", what, most)
	}
	return n, nil
}

func parseTime(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("it must be a time above 0 with a unit, such as 1.5s, 10m or 2h")
	}
	return d, nil
}

// clusterOptions are common options of cluster launchers: their error explains -join.
var clusterOptions = []string{"H", "host", "hosts", "hostfile", "f", "machinefile", "ppn", "N", "npernode"}

// parseRun parses a command line. help is true if it contains -h.
func parseRun(args []string) (spec runSpec, help bool, err error) {
	for first := true; ; first = false {
		part := job.Part{Ranks: 1}
		for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
			if args[0] == "--" {
				args = args[1:]
				break
			}
			name := strings.TrimPrefix(args[0][1:], "-")
			if name == "h" || name == "help" {
				return spec, true, nil
			}
			if args, err = parseRunOption(&spec, &part, args, first); err != nil {
				return spec, false, err
			}
		}
		end := slices.Index(args, ":")
		rest := end >= 0
		if !rest {
			end = len(args)
		}
		if end == 0 {
			where := "there is no program to run"
			if !first || rest {
				where = fmt.Sprintf("part %d of the command line has no program; colons separate parts", len(spec.Parts)+1)
			}
			return spec, false, fmt.Errorf("%s; it is [OPTION...] PROGRAM [ARGUMENT...] [: ...]", where)
		}
		part.Program, part.Args = args[0], args[1:end]
		spec.Parts = append(spec.Parts, part)
		if !rest {
			break
		}
		args = args[end+1:]
	}
	if spec.Label && spec.OutputDir != "" {
		return spec, false, fmt.Errorf("-label and -output are two ways to tell ranks apart; choose one")
	}
	if spec.Bind == nil {
		p, err := bind.Parse(cmp.Or(env.Bind.Text(), "auto"))
		if err != nil {
			return spec, false, fmt.Errorf("environment variable %w", env.Bind.Problem())
		}
		spec.Bind = &p
	}
	if spec.DeadAfter, err = env.DeadAfter.Value(); err != nil {
		return spec, false, fmt.Errorf("environment variable %w", err)
	}
	if _, set := os.LookupEnv(comm.EnvSurvive); spec.KeepGoing && !set {
		for i := range spec.Parts {
			p := &spec.Parts[i]
			// a later value, which the user gives, takes precedence
			p.Env = append([]string{comm.EnvSurvive + "=1"}, p.Env...)
		}
	}
	return spec, false, nil
}

// parseRunOption parses the option at the start of args, and returns the arguments after it.
func parseRunOption(spec *runSpec, part *job.Part, args []string, first bool) ([]string, error) {
	name, value, has := strings.Cut(strings.TrimPrefix(args[0][1:], "-"), "=")
	i := slices.IndexFunc(runOptions, func(o runOption) bool { return slices.Contains(o.names, name) })
	if i < 0 {
		if slices.Contains(clusterOptions, name) {
			return nil, fmt.Errorf("-%s: weft run starts ranks on its own machine only, and is no launcher for clusters; on another one, start another weft run with -join", name)
		}
		var legal []string
		for _, o := range runOptions {
			for _, n := range o.names {
				legal = append(legal, "-"+n)
			}
		}
		slices.Sort(legal)
		return nil, fmt.Errorf("unknown option -%s; legal are %s, -h", name, strings.Join(legal, ", "))
	}
	o := runOptions[i]
	args = args[1:]
	switch {
	case o.job && !first:
		return nil, fmt.Errorf("-%s is an option of the whole job; it belongs before the first program", name)
	case o.value == "" && has:
		return nil, fmt.Errorf("-%s=%s: it takes no value", name, value)
	case o.value != "" && !has:
		if len(args) == 0 || args[0] == ":" {
			return nil, fmt.Errorf("-%s needs %s", name, o.value)
		}
		value, args = args[0], args[1:]
	}
	if err := o.set(spec, part, value); err != nil {
		return nil, fmt.Errorf("-%s %s: %w", name, value, err)
	}
	return args, nil
}
