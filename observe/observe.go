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

// Config sets an [Observer] up. The zero value is good for statistics, a task profile and the live
// page.
type Config struct {
	// Graph is how many tasks are kept for the graph: those that are over first. Each takes some
	// 500 bytes. Zero keeps none, and then [Observer.Graph] is empty. Until there are so many, all
	// tasks are looked at, and tasks that do little may have to wait for the observer.
	Graph int

	// Sample is of how many tasks one is looked at, chosen by chance: the more, the less observing
	// costs tasks that do very little. Numbers of tasks by label are exact all the same; times
	// stand for the tasks that were not looked at as well. Main tasks and the tasks of recorded
	// loops are always looked at. One looks at all, which File needs, and Graph for as long as it
	// has room. Zero looks at all while tasks come slowly: a slot that has spawned 512 tasks
	// quicker than one in 32 microseconds looks at one in two of the next, and so on, and at one in
	// 64 of those that come quickest, so that looking at tasks costs them little whatever they do.
	Sample int

	// Stacks makes the task profile a tree of calls: the stack of each spawn is recorded, up to the
	// body that it was called from, and from there that of the spawn of that body's task, up to the
	// call of Run. Without it the profile has labels, and the lines that spawn, if the runtime has
	// TraceSpawns, or else the bodies. It costs some hundred nanoseconds for each task that is
	// looked at.
	Stacks bool

	// Annotate makes tasks known to Go's own tools: samples of a CPU profile have the label "task"
	// with the task's label, or the name of its body (go tool pprof -tagfocus and -tags), and each
	// body is a region while a runtime trace is taken (go tool trace). It costs some hundred
	// nanoseconds a task.
	Annotate bool

	// Ring is how many events each slot may be ahead of the observer, a power of two. Zero means
	// 65536, which is 2 MiB for each slot. What has no room is lost, and every output says so.
	Ring int

	// File, if it is not empty, gets the recording, too, with all events: see trace.Options.File.
	// Empty means the file that the environment variable WEFT_TRACE names, if it does: then all
	// tasks are looked at, whatever Sample is.
	File string

	// Hosts are more names by which the live page may be asked for, such as that of a proxy: see
	// [Observer.Handler]. The name "*" means all, which is for a server that checks the header Host
	// itself.
	Hosts []string

	// Logger gets what [Observer.Listen] has to say. Nil means the standard error.
	Logger *slog.Logger
}

// maxGraph bounds Config.Graph: its memory is some 8 GiB.
const maxGraph = 1 << 24

// An Observer records what tasks do, and says it in many ways. Make one with [New], give its
// recording to the runtimes and ranks that it is to observe, and close it at the end. Any goroutine
// may call its methods.
type Observer struct {
	cfg       Config
	recorder  *event.Recorder
	collector *collect.Collector
	start     time.Time
	ports     atomic.Pointer[[]int]  // of the pages of all ranks; nil if they are not known
	host      atomic.Pointer[string] // the name or address that Listen was given; nil if none
}

// New returns an observer. The error says what in cfg is not legal, and what is.
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
	if err := opt.Check(); err != nil { // before a file is made
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

// fileOf returns the sink of the file that is wanted, or of the one that the environment names; nil
// for none.
func fileOf(name string) (event.Sink, func(*event.Recorder), error) {
	if name == "" {
		return output.EnvironmentSink()
	}
	s, err := output.Create(name)
	return s, nil, err
}

// Recorder is what task.Config.Trace and comm.Config.Trace take.
func (o *Observer) Recorder() *trace.Recorder { return (*trace.Recorder)(o.recorder) }

// Close ends the observation: what was observed can still be asked for. Close the runtimes first,
// since what they do afterwards is not recorded. Later calls do nothing.
func (o *Observer) Close() error { return o.recorder.Close() }

// flush lets the collector have all that was recorded, and know that it has.
func (o *Observer) flush() {
	for range 2 {
		_ = o.recorder.Flush() // the collector has no errors
	}
}

// anyHost in Config.Hosts means all names.
const anyHost = "*"

// checkHosts says what is wrong with Config.Hosts.
func checkHosts(hosts []string) error {
	for _, h := range hosts {
		if h == "" || h != anyHost && strings.ContainsAny(h, ":/*@ ") {
			return fmt.Errorf("observe: Config.Hosts has %q; legal are names without a port, such as node7.example.org, and %q for all", h, anyHost)
		}
	}
	return nil
}
