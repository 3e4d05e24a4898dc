// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"weft/internal/env"
	"weft/internal/event/output"
	"weft/internal/processors"
	"weft/internal/race"
	"weft/task/internal/lint"
	"weft/trace"
)

// Config sets up a [Runtime]. The zero value is good for most programs. It is
// copied by [New] and can be reused.
type Config struct {
	// Workers is the number of slots: how many tasks run at one time. Zero
	// means the environment variable WEFT_WORKERS, or DefaultWorkers.
	Workers int

	// Window throttles task creation. It bounds the live children of one task: a task that has more
	// waits, at its next calls of Spawn, until half of them are over. Children that are blocked or
	// wait for events do not count. The throttle never holds a program up: when nothing else can
	// run, the creator goes on. Zero means the environment variable WEFT_WINDOW, or 4096; a
	// negative value, no bound.
	Window int

	// TraceSpawns records for each task the line that spawned it, for error texts. It costs a
	// partial stack walk per task. Without it an error names the line where the body is written,
	// which for a function literal is the same line.
	TraceSpawns bool

	// Debug makes the runtime check for accesses that are declared wrongly. Two tasks that may use
	// an object at the same time, one of them writing, end the run with [ErrConflict]; a possible
	// mistake is logged to Logger. It includes TraceSpawns, and costs a lock and a little memory
	// per task. False means the environment variable WEFT_DEBUG, or the value of Lint.
	Debug bool

	// Trace records what tasks and slots do: see package weft/trace, which makes recorders. Nil
	// means the recording that the environment variable WEFT_TRACE asks for, or none.
	Trace *trace.Recorder

	// Lint shows the race detector the order that accesses, spawns and waits declare, instead of
	// the order in which tasks happen to run. So a missing access is reported as a race, with its
	// two lines, whatever the schedule. Lint needs a build with the race detector from which the
	// runtime itself is left out; the command "weft lint" makes one. In any other build Lint is an
	// error. False means the environment variable WEFT_LINT; in such a build the default is on.
	Lint bool

	// Watchdog makes the runtime keep a list of its tasks, and report tasks that are stuck. A task
	// is stuck if it has waited for this long for something that no task provides, such as a
	// message or the end of an event. Tasks that wait for each other are stuck at once. A report
	// names each task, where it was spawned, its age and what it waits for. Tasks that run, however
	// long, and tasks that wait for running ones are not stuck. No task is ended. Watchdog includes
	// TraceSpawns, and costs a record, three short locks and a clock reading for each of a task's
	// states. Zero means the environment variable WEFT_WATCHDOG, or no watchdog; a negative value,
	// none.
	Watchdog time.Duration

	// Reports is where the watchdog writes. If there is no Logger, debug mode and warnings about
	// unknown environment variables go here too. So do:
	//
	//   - the failure of a run that is not over a second later because a body or an event is not:
	//     Run cannot return it yet;
	//   - what such a run waits for, three seconds after its failure or the end of its context,
	//     unless bodies compute;
	//   - without a watchdog and a Logger, that bodies block on all slots while tasks are ready.
	//
	// Several goroutines may write. Nil means the standard error.
	Reports io.Writer

	// Logger gets degraded operation, the warnings of debug mode, and, without a watchdog, that
	// bodies block on all slots while tasks are ready. Nil means silence, but the latter two go to
	// Reports.
	Logger *slog.Logger

	logs        bool // Logger is not nil
	waitForEver bool // the deadlock detector is off
}

const (
	watchLeast = time.Millisecond // legal values of Config.Watchdog
	watchMost  = 24 * time.Hour
)

// DefaultWorkers returns the number of slots of a runtime if neither Config.Workers nor
// WEFT_WORKERS is set: GOMAXPROCS, minus the processor that a rank of a job reserves for
// communication (docs/guide/processes.md).
func DefaultWorkers() int { return processors.Count() }

// errLint is the error of lint mode in a build that does not support it.
var errLint = errors.New("task: lint mode needs a build with the race detector from which weft's own runtime is left out; " +
	"start the program by weft lint, as in: go run weft/cmd/weft lint go run PROGRAM; a list of -tags of the go command's own has to have " + race.Tag)

// withDefaults returns c with a value for every zero field.
func (c Config) withDefaults() (Config, error) {
	if err := c.fromEnvironment(); err != nil {
		return c, err
	}
	switch {
	case c.Workers < 1 || c.Workers > env.MaxWorkers:
		return c, fmt.Errorf("task: Config.Workers is %d; legal are 1 to %d, and 0 for the default (WEFT_WORKERS, or one per processor)", c.Workers, env.MaxWorkers)
	case c.Window > env.MaxWindow || c.Window == 1:
		return c, fmt.Errorf("task: Config.Window is %d; legal are 2 to %d, 0 for the default and a negative value for none", c.Window, env.MaxWindow)
	case c.Lint && !race.Lint:
		return c, errLint
	case c.Watchdog > watchMost || c.Watchdog > 0 && c.Watchdog < watchLeast:
		return c, fmt.Errorf("task: Config.Watchdog is %v; legal are %v to %v, 0 for the environment's and a negative value for none", c.Watchdog, watchLeast, watchMost)
	}
	c.Watchdog = max(c.Watchdog, 0)
	if c.Trace == nil {
		rec, err := output.FromEnvironment()
		if err != nil {
			return c, fmt.Errorf("task: %w", err)
		}
		c.Trace = (*trace.Recorder)(rec)
	}
	c.Reports = cmp.Or[io.Writer](c.Reports, os.Stderr)
	c.logs = c.Logger != nil
	c.TraceSpawns = c.TraceSpawns || c.Debug || c.Lint || c.Watchdog > 0
	env.Warn(c.Logger, c.Reports)
	if c.Lint {
		lint.Say(c.Logger, c.Reports)
	}
	if c.Logger == nil && c.Debug {
		c.Logger = slog.New(slog.NewTextHandler(c.Reports, nil))
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, nil
}

// fromEnvironment sets the fields that the program has left zero.
func (c *Config) fromEnvironment() error {
	var problems []error
	number := func(field *int, s env.Setting[int], unset int) {
		if *field == 0 {
			n, err := s.Value()
			problems = append(problems, err)
			*field = cmp.Or(n, unset)
		}
	}
	flag := func(field *bool, s env.Setting[int], unset bool) {
		if !*field {
			n, err := s.Value()
			problems = append(problems, err)
			*field = n == 1 || unset && s.Text() == ""
		}
	}
	number(&c.Workers, env.Workers, DefaultWorkers())
	number(&c.Window, env.Window, 0)
	flag(&c.Lint, env.Lint, race.Lint)
	flag(&c.Debug, env.Debug, c.Lint)
	if c.Watchdog == 0 {
		d, err := env.Watchdog.Value()
		problems = append(problems, err)
		c.Watchdog = d
	}
	warnings, err := env.DeadlockWarnings.Value()
	c.waitForEver = warnings == -1
	if err := errors.Join(append(problems, err)...); err != nil {
		return fmt.Errorf("task: environment variable %w", err)
	}
	return nil
}

func init() { env.Workers.Standard = func() string { return strconv.Itoa(DefaultWorkers()) } }

// The environment variables that the package reads for fields of Config that are zero.
const (
	EnvWorkers  = "WEFT_WORKERS"  // Config.Workers
	EnvWindow   = "WEFT_WINDOW"   // Config.Window
	EnvLint     = "WEFT_LINT"     // Config.Lint
	EnvDebug    = "WEFT_DEBUG"    // Config.Debug
	EnvWatchdog = "WEFT_WATCHDOG" // Config.Watchdog
)

// DefaultWindow is the bound on live children if neither Config.Window nor WEFT_WINDOW is set.
const DefaultWindow = env.DefaultWindow
