// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"weft/internal/env"
	"weft/internal/launch/job"
)

const runHelp = `run starts a program as several processes, the ranks of a job, on this machine, and sees them to their end.

Any program can be run. A weft program needs no flag: comm.Main finds out that it was started so.

A colon, as an argument of its own, begins another part of the same job, with a program and options of its own; ranks are
counted through. Options end where the program's name begins.

Of the job, before the first program:
  -l, -label       begin each line of output with the rank
  -o, -output DIR  write the output of rank R to DIR/rank.R.out and DIR/rank.R.err
  -bind WHAT       bind ranks to processors: auto, none, core, or a set for each rank, as in 0-3,4-7 or 0+2,1+3 (auto)
  -v, -verbose     say how ranks are bound
  -trace FILE      record what all ranks do (WEFT_TRACE). FILE.json: make one timeline of it at the end, also when a rank has
                   failed, and leave the recordings beside it, FILE.rankR.json.weft; another name: recordings only
  -keep-going      when a rank fails, leave the others
  -timeout D       end the job after a time such as 90s or 2h, with exit status 124
  -grace D         how long ranks have to end before they are killed: after the SIGTERM that follows a failure, and after a
                   SIGTERM or SIGHUP to weft run (5s)
  -h, -help        show this text

Of a job on several machines, with a launcher on each:
  -listen ADDR     take other launchers in at an address, HOST:PORT
  -elsewhere N     how many ranks these bring; they come after this launcher's own
  -join ADDR       bring the ranks to the job of the launcher that listens there
  -first R         number of the first of them (any that is free)
  -secret-file F   what the launchers know and others do not; the one that listens makes it if it is not there, and you
                   take it to the other machines
  -wait D          how long to wait for the others (1m)

Of a part, before its program:
  -n, -np N        number of ranks, 1 to 4096 in all (1)
  -wdir DIR        working directory
  -env, -x K=V     set an environment variable; -x K has it as it is, which all have anyway

The program is looked for in PATH or, if its name has a slash, where it says, from the current directory or else from
that of -wdir. Rank 0 gets the standard input. Lines of output up to 64 KiB are kept whole. SIGINT, SIGTERM, SIGHUP, SIGQUIT,
SIGUSR1 and SIGUSR2 are passed on; SIGTERM and SIGHUP begin the time of -grace, and a second SIGINT or SIGTERM kills.

With -bind auto, if there is a processor for each rank among those that the launcher may use, each rank gets an equal part of
them, of whole cores as long as there are enough. Otherwise ranks are not bound. Launchers know nothing of each other: several at
one time would bind their ranks to the same processors; give them parts of the machine (taskset, or sets), or -bind none. The
environment variable WEFT_BIND stands for the option where it is not given.

When a rank fails, the others get SIGTERM and, after the time of -grace, SIGKILL; each with all that is in its process
group. The exit status is that of the first rank that failed: its own, or 128 and the signal that killed it; 126 or 127 if the
program cannot be run or is not there, 2 for a mistake in the command line.

Where there are several launchers, the one that listens decides: all others end with the status of the job, and when their
ranks have ended wait for the rest.`

func newRun() *cobra.Command {
	return &cobra.Command{
		Use:   "run [OPTION...] PROGRAM [ARGUMENT...] [: [OPTION...] PROGRAM [ARGUMENT...]]...",
		Short: "Run a program as several processes",
		Long:  runHelp,
		Example: `  weft run -n 4 ./prog -size 100
  weft run -n 2 ./a : -n 4 -env K=V ./b
  weft run -l -n 3 hostname
  weft run -listen 10.0.0.1:7000 -elsewhere 2 -secret-file ~/.weft-secret -n 2 ./prog
  weft run -join 10.0.0.1:7000 -secret-file ~/.weft-secret -n 2 ./prog`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, help, err := parseRun(args)
			if help {
				return cmd.Help()
			}
			if err != nil {
				return usageError{err}
			}
			reportUnknownVariables(cmd.ErrOrStderr(), &spec.Spec)
			return runTraced(cmd.ErrOrStderr(), spec)
		},
	}
}

// report says which names in the environment of the job mean nothing. The ranks, which do that too,
// are told.
func reportUnknownVariables(w io.Writer, spec *job.Spec) {
	environ := os.Environ()
	for _, p := range spec.Parts {
		environ = append(environ, p.Env...)
	}
	unknown := env.Unknown(environ)
	before := strings.Split(env.Reported.Text(), ",")
	for _, name := range unknown {
		if !slices.Contains(before, name) {
			fmt.Fprintln(w, env.Line(name))
		}
	}
	if len(unknown) == 0 {
		return
	}
	told := env.Reported.Name + "=" + strings.Join(unknown, ",")
	for i := range spec.Parts {
		spec.Parts[i].Env = append([]string{told}, spec.Parts[i].Env...)
	}
}

// runTraced runs a job and, if that is wanted, makes a timeline of it, however it has ended.
func runTraced(errOut io.Writer, spec runSpec) error {
	if spec.trace == "" {
		return runJob(spec.Spec)
	}
	traced, err := traceJob(&spec.Spec, spec.trace)
	if err != nil {
		return err
	}
	err = runJob(spec.Spec)
	if status := exitStatus(0); err != nil && !errors.As(err, &status) {
		return err // it was not started
	}
	if e := traced.merge(errOut); e != nil && err != nil {
		fmt.Fprintf(errOut, "weft run: %v\n", e) // the job's own failure counts
	} else if e != nil {
		return e
	}
	return err
}

// runJob runs a job with this process's descriptors and signals.
func runJob(spec job.Spec) error {
	signals := make(chan os.Signal, 16)
	if list := job.Forwarded(); len(list) > 0 {
		signal.Notify(signals, list...)
		defer signal.Stop(signals)
	}
	stop := surviveClosedPipe()
	defer stop()
	spec.Signals, spec.Janitor = signals, true
	spec.Stdin, spec.Stdout, spec.Stderr = os.Stdin, os.Stdout, os.Stderr
	spec.CopyStdin = term.IsTerminal(int(os.Stdin.Fd()))
	status, err := job.Run(spec)
	if failed, ok := errors.AsType[*job.Error](err); ok && failed.Status == job.StatusUsage {
		return usageError{err}
	}
	if err == nil && status != 0 {
		return exitStatus(status)
	}
	return err
}
