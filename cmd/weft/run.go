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

const runHelp = `run starts a program as several processes, the ranks of a job, on this machine, and waits for their end.

Any program can be run. A weft program needs no flag: comm.Main recognizes that weft run started it.

A colon, as an argument of its own, begins another part of the same job, with its own options and program. Ranks are
numbered through all parts. Options end at the program's name.

Options of the job, before the first program:
  -l, -label       begin each line of output with the rank
  -o, -output DIR  write the output of rank R to DIR/rank.R.out and DIR/rank.R.err
  -bind WHAT       bind ranks to processors: auto, none, core, or a set for each rank, as in 0-3,4-7 or 0+2,1+3 (auto)
  -v, -verbose     print how ranks are bound
  -trace FILE      record all ranks (WEFT_TRACE). FILE.json: make one timeline at the end, also if a rank has failed, and
                   keep the recordings next to it as FILE.rankR.json.weft. Another name: recordings only
  -keep-going      if a rank fails, let the others continue
  -timeout D       end the job after a time such as 90s or 2h, with exit status 124
  -grace D         time between SIGTERM and SIGKILL: after a failure, and after a SIGTERM or SIGHUP to weft run (5s)
  -h, -help        show this text

Options of a job on several machines, with a launcher on each:
  -listen ADDR     accept other launchers at an address, HOST:PORT
  -elsewhere N     total number of ranks of the other launchers; they follow this launcher's own ranks
  -join ADDR       add ranks to the job of the launcher that listens at the address
  -first R         number of the first of these ranks (any that is free)
  -secret-file F   file with a secret that all launchers of the job share. The listening launcher creates it if it does
                   not exist; copy it to the other machines
  -wait D          time to wait for the other launchers (1m)

Options of a part, before its program:
  -n, -np N        number of ranks, 1 to 4096 in all (1)
  -wdir DIR        working directory
  -env, -x K=V     set an environment variable. -x K passes K unchanged, as all variables are anyway

A program is looked up in PATH. If its name has a slash, it is looked up from the current directory, then from that of
-wdir. Rank 0 reads the standard input. Lines of output up to 64 KiB are not split. SIGINT, SIGTERM, SIGHUP, SIGQUIT,
SIGUSR1 and SIGUSR2 are forwarded to the ranks. SIGTERM and SIGHUP start the time of -grace; a second SIGINT or SIGTERM
kills the ranks.

With -bind auto, each rank gets an equal part of the processors that the launcher may use, if there is at least one for
each rank: whole cores, if there is a core for each rank. Otherwise ranks are not bound. Launchers do not know of each
other: two at one time would bind their ranks to the same processors. Give each a part of the machine (by taskset or by
sets), or use -bind none. WEFT_BIND is used if the option is not given.

If a rank fails, the others get SIGTERM and, after the time of -grace, SIGKILL; so do all processes in their process
groups. The exit status is that of the first rank that failed: its own status, or 128 plus the signal that killed it. It
is 126 if the program cannot be run, 127 if it does not exist, and 2 for a mistake in the command line.

With several launchers, the listening one decides: every launcher waits for the whole job, and exits with its status.`

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

// reportUnknownVariables prints the unknown variables of weft in the environment of the job. The
// ranks report unknown variables, too; a variable in their environment lists those that are
// reported already.
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
	reported := env.Reported.Name + "=" + strings.Join(unknown, ",")
	for i := range spec.Parts {
		spec.Parts[i].Env = append([]string{reported}, spec.Parts[i].Env...)
	}
}

// runTraced runs a job and, with -trace, then makes a timeline of it, also if the job has failed.
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
		return err // the job was not started
	}
	if e := traced.merge(errOut); e != nil && err != nil {
		fmt.Fprintf(errOut, "weft run: %v\n", e) // the exit status is that of the job's failure
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
