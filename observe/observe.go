// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"weft/internal/event"
	"weft/internal/event/output"
	"weft/observe/internal/collect"
	"weft/trace"
)

// Config configures an [Observer]. The zero value serves for statistics, a task profile and the
// live page.
type Config struct {
	// Graph is the number of tasks that are kept for the graph: those that are over first. Each
	// takes some 500 bytes. Zero keeps none, and then [Observer.Graph] is empty. Until that many
	// are over, all tasks are observed, and tasks that do little may have to wait for the observer.
	Graph int

	// Sample selects the tasks that are observed: one in Sample tasks, chosen at random. A greater
	// number lowers the cost for tasks that do very little. Numbers of tasks by label are exact in
	// any case; times also stand for the tasks that are not observed. Main tasks and the tasks of
	// recorded loops are always observed. One observes all tasks; File needs that, and so does
	// Graph until it has its tasks. Zero observes all tasks while they are spawned slowly. After a
	// slot has spawned 512 tasks at a rate above one in 32 microseconds, it observes one in two of
	// the next, and so on, down to one in 64 at the highest rates. So observing costs tasks little,
	// whatever they do.
	Sample int

	// Stacks makes the task profile a tree of calls. The stack of each spawn is recorded up to the
	// body that called it. From there, the profile continues with the stack of the spawn of that
	// body's task, up to the call of Run. Without Stacks the profile has labels, and the lines that
	// spawn if the runtime has TraceSpawns, or else the bodies. Stacks costs some hundred
	// nanoseconds for each observed task.
	Stacks bool

	// Annotate makes tasks visible to Go's own tools. Samples of a CPU profile have the label
	// "task" with the task's label or the name of its body (go tool pprof -tagfocus and -tags).
	// While a runtime trace is taken, each body is a region (go tool trace). Annotate costs some
	// hundred nanoseconds a task.
	Annotate bool

	// Ring is the number of trace events of each slot that may wait for the observer, a power of
	// two. Zero means 65536, which is 2 MiB for each slot. An event that finds no room is lost, and
	// every output says so.
	Ring int

	// File, if it is not empty, is the file to which the recording is also written, with all trace
	// events: see trace.Options.File. Empty means the file that the environment variable WEFT_TRACE
	// names, if it is set. Then all tasks are observed, whatever Sample is.
	File string

	// Hosts are further host names under which the live page may be requested, such as that of a
	// proxy: see [Observer.Handler]. The name "*" allows all names, for a server that checks the
	// header Host itself.
	Hosts []string

	// Logger gets the warning of [Observer.Listen]. Nil means the standard error.
	Logger *slog.Logger
}

// maxGraph bounds Config.Graph: its memory is some 8 GiB.
const maxGraph = 1 << 24

// An Observer records what tasks do, and reports it in several forms. Make one with [New], pass its
// recorder to the runtimes and ranks that it is to observe, and close it at the end. Any goroutine
// may call its methods.
type Observer struct {
	cfg       Config
	recorder  *event.Recorder
	collector *collect.Collector
	start     time.Time
	ports     atomic.Pointer[[]int]  // of the pages of all ranks; nil if they are not known
	host      atomic.Pointer[string] // the host of the address of Listen; nil if there is none
}

// New returns an observer. The error names an illegal field of cfg and its legal values.
func New(cfg Config) (*Observer, error) {
	if cfg.Graph < 0 || cfg.Graph > maxGraph {
		return nil, fmt.Errorf("observe: Config.Graph is %d; legal are 0 to %d tasks", cfg.Graph, maxGraph)
	}
	if cfg.Sample < 0 || cfg.Sample > event.MaxSample {
		return nil, fmt.Errorf("observe: Config.Sample is %d; legal are 1 for all tasks, one of up to %d, and 0 for as many as cost little", cfg.Sample, event.MaxSample)
	}
	if cfg.Sample > 1 && cfg.Graph > 0 {
		return nil, fmt.Errorf("observe: Config.Sample is %d and Config.Graph %d: a graph needs all tasks", cfg.Sample, cfg.Graph)
	}
	if cfg.Sample > 1 && cfg.File != "" {
		return nil, fmt.Errorf("observe: Config.Sample is %d and Config.File %q: a trace needs all tasks", cfg.Sample, cfg.File)
	}
	if err := checkHosts(cfg.Hosts); err != nil {
		return nil, err
	}
	cfg.Hosts = slices.Clone(cfg.Hosts)
	o := &Observer{cfg: cfg, collector: collect.New(cfg.Graph), start: time.Now()}
	opt := event.Options{Ring: cfg.Ring, Sample: cfg.Sample, Eager: cfg.Graph > 0, Annotate: cfg.Annotate, Stacks: cfg.Stacks, Wants: collect.Wants(cfg.Graph), Sinks: []event.Sink{o.collector}}
	if err := opt.Check(); err != nil { // before a file is created
		return nil, fmt.Errorf("observe: %w", err)
	}
	file, adopt, err := fileOf(cfg.File)
	switch {
	case err != nil:
		return nil, fmt.Errorf("observe: %w", err)
	case file != nil:
		opt.Wants, opt.Sample, opt.Sinks = event.All, 1, append(opt.Sinks, file)
	case cfg.Sample == 0:
		opt.Sample = event.Adaptive
	}
	if o.recorder, err = event.New(opt); err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	if adopt != nil {
		adopt(o.recorder)
	}
	return o, nil
}

// fileOf returns the sink of the file called name, or else of the file that the environment names;
// nil for none.
func fileOf(name string) (event.Sink, func(*event.Recorder), error) {
	if name == "" {
		return output.EnvironmentSink()
	}
	s, err := output.Create(name)
	return s, nil, err
}

// Recorder returns the value for task.Config.Trace and comm.Config.Trace.
func (o *Observer) Recorder() *trace.Recorder { return (*trace.Recorder)(o.recorder) }

// Close ends the observation. Its results remain available. Close the runtimes first, because
// nothing is recorded after Close. Later calls do nothing.
func (o *Observer) Close() error { return o.recorder.Close() }

// flush passes all recorded events to the collector. The second flush tells the collector that it
// has all events that precede the first.
func (o *Observer) flush() {
	for range 2 {
		_ = o.recorder.Flush() // the collector has no errors
	}
}

// anyHost in Config.Hosts allows all names.
const anyHost = "*"

// checkHosts returns an error if Config.Hosts is not legal.
func checkHosts(hosts []string) error {
	for _, h := range hosts {
		if h == "" || h != anyHost && strings.ContainsAny(h, ":/*@ ") {
			return fmt.Errorf("observe: Config.Hosts has %q; legal are names without a port, such as node7.example.org, and %q for all", h, anyHost)
		}
	}
	return nil
}
