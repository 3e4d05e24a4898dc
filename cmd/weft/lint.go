// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weft/internal/race"
	"weft/task"
)

func newLint() *cobra.Command {
	var self bool
	cmd := &cobra.Command{
		Use:   "lint COMMAND [ARGUMENTS]",
		Short: "Run a go command in lint mode: find missing accesses with the race detector",
		Long: `lint runs a go command, such as go run or go test, with the race detector and in lint mode. In lint mode, the race detector
sees only the order that tasks declare by accesses, spawns and waits, not the order in which they happened to run.
So it reports a missing access as a race, with both lines, whatever the schedule was. Debug mode is on as well.

A program that go build makes under lint is in lint mode whenever it runs, unless ` + task.EnvLint + `=0 is set. Other commands, such as
make or a script, are run unchanged; the programs that they build with the go command are in lint mode.

lint sets these environment variables:
  GOFLAGS      builds everything except weft's own runtime with the race detector
  ` + task.EnvLint + `    1
  ` + task.EnvDebug + `   1
  ` + race.EnvRace + `       the longest history of the race detector, unless it sets one

The race detector forgets old accesses: a program prints at its start how far apart two accesses may be, so use
small data. The race detector needs a C compiler. The exit status is that of the command. If there was a race,
go test fails, and a program ends with status 66.`,
		Example: `  weft lint go test ./...
  weft lint go run ./examples/heat -timesteps 20 -size 128 -bs 32
  weft lint go build -o heat-lint ./examples/heat && weft run -n 3 ./heat-lint`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("no command; give one, such as go test ./... in the module")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			remark, err := lintable(args)
			if err != nil {
				return usageError{err}
			}
			if remark != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), "weft: lint:", remark)
			}
			c := exec.CommandContext(cmd.Context(), args[0], args[1:]...)
			if c.Env, err = lintEnviron(os.Environ(), self); err != nil {
				return fmt.Errorf("lint: %w", err)
			}
			return runTool(cmd, c)
		},
	}
	cmd.Flags().BoolVar(&self, "self", false, "build the tests of weft's own runtime with the race detector, too")
	cmd.Flags().SetInterspersed(false) // arguments after the command belong to the command
	return cmd
}

var goName = regexp.MustCompile(`^(go([0-9][0-9a-z.]*)?|gotip)(\.exe)?$`)

// lintBuilds are the go command's subcommands that build programs.
var lintBuilds = []string{"run", "test", "build", "install", "generate", "tool"}

// lintable returns an error if a command can run nothing in lint mode, and a remark if it may run
// nothing in lint mode.
func lintable(args []string) (remark string, err error) {
	if goName.MatchString(filepath.Base(args[0])) {
		if name := goSubcommand(args[1:]); !slices.Contains(lintBuilds, name) {
			return "", fmt.Errorf("%s builds no program that could run in lint mode; legal are go run, go test, go build and go install", strings.TrimSpace("go "+name))
		}
		return "", nil
	}
	remark = fmt.Sprintf("%s is not the go command: only programs that it builds with the go command are in lint mode", args[0])
	path, err := exec.LookPath(args[0])
	if err != nil {
		return "", err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return remark, nil // not a Go program
	}
	switch lint, uses := lintBuild(info); {
	case lint, info.Path == "weft/cmd/weft":
		return "", nil
	case uses:
		return "", fmt.Errorf("%s is built without lint mode; build it by weft lint go build, or run it by weft lint go run", args[0])
	}
	return remark, nil
}

// lintBuild reports whether a program is built for lint mode, and whether it uses weft.
func lintBuild(info *buildinfo.BuildInfo) (lint, uses bool) {
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	lint = set["-race"] == "true" && slices.Contains(strings.Split(set["-tags"], ","), race.Tag)
	uses = info.Main.Path == "weft" || slices.ContainsFunc(info.Deps, func(m *debug.Module) bool { return m.Path == "weft" })
	return lint, uses
}

// goSubcommand returns the first argument that is not a flag of the go command itself. Its only
// flag with a value is -C.
func goSubcommand(args []string) string {
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-C" || a == "--C":
			i++
		case !strings.HasPrefix(a, "-"):
			return a
		}
	}
	return ""
}

// goTags matches lists of build tags in GOFLAGS.
var goTags = regexp.MustCompile(`(?:^|\s)['"]?--?tags=([^\s'"]+)`)

// lintEnviron returns the environment of a command that builds and runs programs in lint mode.
func lintEnviron(env []string, self bool) ([]string, error) {
	flags, options := "", ""
	for _, v := range env {
		if old, ok := strings.CutPrefix(v, "GOFLAGS="); ok {
			flags = old + " "
		}
		if old, ok := strings.CutPrefix(v, race.EnvRace+"="); ok {
			options = old
		}
	}
	tags := race.Tag
	for _, old := range goTags.FindAllStringSubmatch(flags, -1) { // the last list counts
		tags += "," + old[1]
	}
	flags += "-race -tags=" + tags
	without := "-race=false"
	if self {
		without = compileMark
		path, err := os.Executable()
		if err != nil {
			return nil, err
		}
		flags += fmt.Sprintf(` "-toolexec='%s' %s"`, path, compileCommand)
	}
	for _, p := range race.Packages {
		flags += " -gcflags=" + p + "=" + without
	}
	return append(env, "GOFLAGS="+flags, "CGO_ENABLED=1", task.EnvLint+"=1", task.EnvDebug+"=1", race.EnvRace+"="+race.History(options)), nil
}

// The go command gives the external tests of a package the flags that are meant for the package.
// The race detector cannot check code that is compiled without it. Such code also has instances of
// generic code with atomic operations, such as that of sync.Map, and the linker uses them in the
// whole program: then every sync.Map orders nothing. So "weft lint --self" marks the packages, and
// runs between the go command and its compiler.

const (
	compileCommand = "lint-compile" // the subcommand that the go command runs instead of a tool

	// compileMark is in the arguments for a package that is excluded, and for its tests. The
	// compiler does not know this argument. It gives the compiled code a different key in the build
	// cache.
	compileMark = "-weft-lint-self"
)

func newLintCompile() *cobra.Command {
	return &cobra.Command{
		Use:                compileCommand + " TOOL [ARGUMENTS]",
		Short:              "Run a tool of the go command, for lint --self",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("no tool; this command is for the go command's -toolexec")}
			}
			return runTool(cmd, exec.CommandContext(cmd.Context(), args[0], compileArguments(args[1:])...))
		},
	}
}

// compileArguments replaces the mark in the arguments of a compiler: it excludes the package from
// the race detector, but not the package's tests.
func compileArguments(args []string) []string {
	out := make([]string, 0, len(args))
	for _, a := range args {
		if a != compileMark {
			out = append(out, a)
			continue
		}
		if p := slices.Index(args, "-p"); p >= 0 && p+1 < len(args) && slices.Contains(race.Packages, args[p+1]) {
			out = append(out, "-race=false")
		}
	}
	return out
}
