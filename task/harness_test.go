// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// A harness runs a program step by step on a real runtime. Each body stops at a gate and does what
// the script says. After each step the harness waits until the runtime is at rest: until every task
// that may run has run as far as its gate. A task that has not started by then cannot start, so
// "must not start yet" is checked exactly, without sleeps or time limits.
//
// A script has a step on each line, and after a bar the tasks that run then:
//
//	spawn T1 in(a) inout(b)   | T1
//	spawn T1.1 inout(b)       | T1 T1.1        a child of T1
//	spawn T2 inout(a)         | T1 T1.1        T2 waits
//	end T1                    | T1.1 T2
//
// The steps are
//
//	spawn NAME ACCESS...      also spawn+wait, spawn+final, in any number
//	undeferred NAME ACCESS... the creator goes on when the body is over: until then it is shown as NAME?
//	release NAME ACCESS...    the body gives accesses up
//	wait NAME                 the body waits for its children: shown as NAME? until it goes on
//	waiton NAME ACCESS...     the same with WaitOn
//	hold NAME                 the body binds an event
//	event NAME                ends the oldest event of NAME
//	end NAME...               the bodies return
//	add NAME X N              adds N to the private copy of sum(X); also most, for max(X)
//	value X N                 the object X is N
//
// An ACCESS is in(x), out(x), inout(x), concurrent(x), commutative(x), the reductions sum(x) and
// max(x), or with weak before it; x is a word, or several with commas between for an access each.
// Words are objects; x[2:5] is a range of an array x, and x{0:4} an object in it. The creator of
// tasks without a dot is the main task, main.
type harness struct {
	under   atomic.Pointer[run] // nil until a body has run
	t       testing.TB
	rt      *Runtime
	gate    gateKind
	script  string
	objects map[string]*int64
	arrays  map[string][]byte
	sums    map[string]*deps.Reduction[int64]
	maxs    map[string]*deps.Reduction[int64]

	// busy is the number of steps that bodies have not finished. A body takes itself off while it
	// has a slot.
	busy atomic.Int32

	mu     sync.Mutex
	actors map[string]*actor
	order  []*actor
	n      notes
}

// gateKind is how bodies wait for the next step.
type gateKind int

const (
	gateBlocking gateKind = iota // in Blocking, on a channel
	gateBlock                    // in Block
	gateAwait                    // in Await
	gateKinds
)

func (k gateKind) String() string { return [...]string{"Blocking", "Block", "Await"}[k] }

// actor is a task of a harness.
type actor struct {
	name  string
	task  atomic.Pointer[Task]
	steps chan func(*Task) bool // for its body; false ends it
	// tells the body that there is a step, if the channel is not enough
	wake   func()
	state  actorState // guarded by harness.mu
	events []func(error)
}

type actorState int

const (
	actorCreated actorState = iota
	actorRuns
	actorWaits // in Wait, in WaitOn or for an undeferred child
	actorOver
)

// play plays a script with every number of workers and every kind of gate.
func play(t *testing.T, script string) {
	t.Helper()
	playUndeclared(t, script)
	playOn(t, Config{Workers: 2, Debug: true}, gateAwait, script) // debug mode changes nothing
}

// playUndeclared is play for a script in which tasks use more than their parents declare, which
// debug mode would refuse.
func playUndeclared(t *testing.T, script string) {
	t.Helper()
	for _, workers := range []int{1, 2, 4} {
		for gate := range gateKinds {
			playOn(t, Config{Workers: workers}, gate, script)
		}
	}
}

func playOn(t testing.TB, cfg Config, gate gateKind, script string) {
	t.Helper()
	rt, err := open(cfg, tuning{})
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	s := newHarness(t, rt, gate)
	s.script = script
	s.run(func() {
		for i, line := range strings.Split(script, "\n") {
			step, want, judged := strings.Cut(line, "|")
			f := strings.Fields(step)
			if len(f) == 0 || strings.HasPrefix(f[0], "#") {
				continue
			}
			s.step(f)
			if s.failed() {
				break // the run's error says why
			}
			if judged {
				require.Equal(t, strings.Fields(want), s.states(), "%d workers, debug %v, gate %v, line %d: %s\nof\n%s", cfg.Workers, cfg.Debug, gate, i+1, line, script)
			}
		}
	})
}

func newHarness(t testing.TB, rt *Runtime, gate gateKind) *harness {
	return &harness{t: t, rt: rt, gate: gate, objects: map[string]*int64{}, actors: map[string]*actor{},
		sums: map[string]*deps.Reduction[int64]{}, maxs: map[string]*deps.Reduction[int64]{}}
}

// run starts the main task, calls f, ends what still runs, and checks that everything has run.
func (s *harness) run(f func()) {
	main := s.actor("main")
	s.busy.Add(1)
	done := make(chan error, 1)
	go func() { done <- s.rt.Run(bg, s.body(main)) }()
	s.quiet()
	finished := false
	defer func() {
		if !finished { // a check has failed: end what there is, so that Close does not hang
			s.rest()
			<-done
		}
	}()
	f()
	s.rest()
	err := <-done
	finished = true
	require.NoError(s.t, err)
	s.n.require(s.t)
	for _, a := range s.order {
		require.Equal(s.t, actorOver, s.stateOf(a), "%s\n%s", a.name, s.script)
	}
}

// rest ends events and bodies, the oldest first, until none is left.
func (s *harness) rest() {
	for !s.failed() {
		a := s.first()
		if a == nil {
			return
		}
		if len(a.events) > 0 {
			s.endEvent(a)
		} else {
			s.tell(a, func(*Task) bool { return false })
		}
		s.quiet()
	}
	for _, a := range s.order {
		for len(a.events) > 0 {
			s.endEvent(a)
		}
	}
}

// first returns the oldest task that can take a step or has events; the main task comes last.
func (s *harness) first() *actor {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range append(slices.Clone(s.order[1:]), s.order[0]) {
		if a.state == actorRuns || len(a.events) > 0 {
			return a
		}
	}
	return nil
}

func (s *harness) actor(name string) *actor {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.actors[name]
	if a == nil {
		a = &actor{name: name, steps: make(chan func(*Task) bool, 1), wake: func() {}}
		s.actors[name] = a
		s.order = append(s.order, a)
	}
	return a
}

func (s *harness) set(a *actor, st actorState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.state = st
}

func (s *harness) stateOf(a *actor) actorState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.state
}

// states returns the names of the tasks that run or wait, in the order of creation; those that wait
// have a question mark.
func (s *harness) states() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := []string{}
	for _, a := range s.order {
		switch {
		case a.state == actorRuns && a.name != "main":
			names = append(names, a.name)
		case a.state == actorWaits:
			names = append(names, a.name+"?")
		}
	}
	return names
}

// body returns the body of a.
func (s *harness) body(a *actor) func(*Task) error {
	return func(t *Task) error {
		s.n.check(s.stateOf(a) == actorCreated, "%s runs twice", a.name)
		a.task.Store(t)
		s.under.Store(t.run)
		if s.gate == gateBlock {
			a.wake = t.Unblock
		}
		s.set(a, actorRuns)
		if a.name == "main" {
			s.busy.Add(-1)
		}
		for {
			step, err := s.next(a, t)
			if err != nil {
				return err
			}
			more := step(t)
			if !more {
				s.set(a, actorOver)
			}
			s.busy.Add(-1) // while t still has its slot
			if !more {
				return nil
			}
		}
	}
}

// next waits at the gate.
func (s *harness) next(a *actor, t *Task) (step func(*Task) bool, err error) {
	switch s.gate {
	case gateBlocking:
		t.Blocking(func() { step = <-a.steps })
	case gateBlock:
		err = t.Block()
	default:
		err = t.Await(func(done func()) {
			s.mu.Lock()
			a.wake = done
			s.mu.Unlock()
		})
	}
	if err == nil && step == nil {
		step = <-a.steps // tell sends the step before it wakes the body
	}
	return step, err
}

// tell gives a step to a's body.
func (s *harness) tell(a *actor, step func(*Task) bool) {
	require.Equal(s.t, actorRuns, s.stateOf(a), "%s does not run\n%s", a.name, s.script)
	s.busy.Add(1)
	a.steps <- step
	s.mu.Lock()
	wake := a.wake
	s.mu.Unlock()
	wake()
}

// quiet returns when only the harness can make something happen: no step is under way, every slot
// is parked, and there is no work for them. While the list of parked slots is locked, no slot can
// leave it. A slot that is in it and has not parked yet finds work only where anyWork searches.
func (s *harness) quiet() {
	until(func() bool { return s.busy.Load() == 0 && s.rt.atRest() || s.failed() })
}

// failed reports whether the run has ended early, which no script intends. From then on no check is
// exact.
func (s *harness) failed() bool {
	r := s.under.Load()
	return r != nil && r.stopped.Load()
}

// atRest reports whether all slots are parked and have no work.
func (rt *Runtime) atRest() bool {
	return rt.sched.NotAtRest() == "" && rt.throttle.n.Load() == 0
}

// step carries out one line of a script and waits until all is quiet.
func (s *harness) step(f []string) {
	defer s.quiet()
	verb, attrs, _ := strings.Cut(f[0], "+")
	if verb == "end" {
		for _, name := range f[1:] {
			s.tell(s.actor(name), func(*Task) bool { return false })
			s.quiet()
		}
		return
	}
	name := f[1]
	switch verb {
	case "spawn", "undeferred":
		a := s.actor(name)
		creator := s.actor("main")
		if i := strings.LastIndexByte(name, '.'); i > 0 {
			creator = s.actor(name[:i])
		}
		at := Attrs{Label: name, Wait: strings.Contains(attrs, "wait"), Final: strings.Contains(attrs, "final"), Undeferred: verb == "undeferred"}
		accs := s.accesses(f[2:])
		spawn := func(t *Task) { t.SpawnWith(at, s.body(a), accs...) }
		if at.Undeferred || creator.task.Load().InFinal() {
			s.waits(creator, spawn)
			return
		}
		s.tell(creator, func(t *Task) bool { spawn(t); return true })
	case "release":
		accs := s.accesses(f[2:])
		s.tell(s.actor(name), func(t *Task) bool {
			err := t.Release(accs...)
			s.n.check(err == nil, "release: %v", err)
			return true
		})
	case "wait":
		s.waits(s.actor(name), func(t *Task) { s.n.check(t.Wait() == nil, "Wait fails") })
	case "waiton":
		accs := s.accesses(f[2:])
		s.waits(s.actor(name), func(t *Task) { s.n.check(t.WaitOn(accs...) == nil, "WaitOn fails") })
	case "hold":
		a := s.actor(name)
		s.tell(a, func(t *Task) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			a.events = append(a.events, t.Hold())
			return true
		})
	case "event":
		s.endEvent(s.actor(name))
	case "add", "most":
		s.object(f[2])
		v, err := strconv.ParseInt(f[3], 10, 64)
		require.NoError(s.t, err)
		s.tell(s.actor(name), func(t *Task) bool {
			if verb == "add" {
				*Local(t, s.sums[f[2]]) += v
			} else if p := Local(t, s.maxs[f[2]]); *p < v {
				*p = v
			}
			return true
		})
	case "value":
		require.Equal(s.t, f[2], strconv.FormatInt(*s.object(name), 10), "%v\n%s", f, s.script)
	default:
		require.Fail(s.t, "no such step", "%q", f)
	}
}

func (s *harness) endEvent(a *actor) {
	end := a.events[0]
	a.events = a.events[1:]
	end(nil)
}

// waits makes a call that may wait, in a's body.
func (s *harness) waits(a *actor, call func(t *Task)) {
	s.tell(a, func(t *Task) bool {
		s.set(a, actorWaits)
		s.busy.Add(-1) // as long as the call does not wait, t has a slot
		call(t)
		s.busy.Add(1)
		s.set(a, actorRuns)
		return true
	})
}

var accessPattern = regexp.MustCompile(`^(weak)?(inout|in|out|concurrent|commutative|sum|max)\(([\w,]+)\)$`)

func (s *harness) object(name string) *int64 {
	p := s.objects[name]
	if p == nil {
		p = new(int64)
		s.objects[name] = p
		s.sums[name] = deps.NewReduction(p, deps.Sum[int64]())
		s.maxs[name] = deps.NewReduction(p, deps.Max[int64]())
	}
	return p
}

func (s *harness) accesses(words []string) (list []deps.Access) {
	for _, w := range words {
		if a, ok := s.rangeAccess(w); ok {
			list = append(list, a)
			continue
		}
		m := accessPattern.FindStringSubmatch(w)
		require.NotNil(s.t, m, "not an access: %q", w)
		for _, name := range strings.Split(m[3], ",") {
			p := s.object(name)
			var a deps.Access
			switch m[2] {
			case "in":
				a = deps.In(p)
			case "out":
				a = deps.Out(p)
			case "inout":
				a = deps.InOut(p)
			case "sum":
				a = s.sums[name].Reduce()
			case "max":
				a = s.maxs[name].Reduce()
			case "commutative":
				a = deps.Commutative(p)
			default:
				a = deps.Concurrent(p)
			}
			if m[1] != "" {
				a = a.Weak()
			}
			list = append(list, a)
		}
	}
	return list
}

// The harness itself: it finds what runs, what waits, and a task that starts too early.
func TestHarness(t *testing.T) {
	play(t, `
		spawn A inout(a)            | A
		spawn B inout(a)            | A
		spawn C in(b)               | A C
		spawn A.1 weakin(a)         | A C A.1
		wait A                      | A? C A.1
		end A.1                     | A C
		hold A                      | A C
		end A                       | C
		event A                     | B C
		undeferred B.1 inout(a)     | B? C B.1
		end B.1 C                   | B
	`)
	rt := newTestRuntime(t, Config{Workers: 2})
	s := newHarness(t, rt, gateBlocking)
	s.run(func() {
		for i := range 3 {
			s.step([]string{"spawn", "T" + strconv.Itoa(i), "inout(a)"})
			require.Equal(t, []string{"T0"}, s.states())
		}
		require.True(t, rt.atRest())
		stop := make(chan struct{})
		s.busy.Add(1)
		s.actor("T0").steps <- func(*Task) bool { <-stop; return true } // keeps its slot
		until(func() bool { return !rt.atRest() })
		for range 100 {
			runtime.Gosched()
			require.False(t, rt.atRest(), "a body runs")
		}
		close(stop)
		s.quiet()
	})
}
