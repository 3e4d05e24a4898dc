//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"fmt"
	"math/rand/v2"

	"weft/internal/xatomic"
)

// Config says how to explore. The zero value explores all orders, reduced.
type Config struct {
	// Full disables the reduction: each order of all steps is run. It is for tests of the explorer.
	Full bool

	// Bound, if not zero, explores only the orders with fewer than Bound preemptions: switches away
	// from a goroutine that could have continued. There is no reduction then.
	Bound int

	// MaxSteps is the number of steps after which a run counts as endless. Zero means 5000.
	MaxSteps int

	// MaxRuns limits the number of orders; Result.Complete is then false. Zero means no limit.
	MaxRuns int

	sites bool
}

// Result is the outcome of a search.
type Result struct {
	Runs      int      // orders that were run
	Redundant int      // of these, those that were found to be redundant on the way
	Steps     int      // of all runs
	Complete  bool     // all orders have been covered
	Failure   *Failure // the first failure, or nil
}

func (r Result) String() string {
	s := fmt.Sprintf("%d orders, %d of them redundant, %d steps", r.Runs, r.Redundant, r.Steps)
	if !r.Complete {
		s += ", not complete"
	}
	return s
}

// A Run is one execution of the program. The setup function makes the objects anew and adds the
// goroutines; its own operations are not steps.
type Run struct {
	e     *engine
	ends  []func() error
	names []name
}

// Go adds a goroutine, which has to end. Only the setup may call it: the program starts goroutines
// with xatomic.Go.
func (r *Run) Go(name string, f func()) { r.e.add(name, f) }

// Daemon adds a goroutine that may be left waiting when no goroutine can continue.
func (r *Run) Daemon(name string, f func()) { r.e.add(name, f).daemon = true }

// Mortal adds a goroutine that ends after the given number of steps, as if its process were killed:
// its further operations are not executed, and locks stay locked. After that, or when f has
// returned, then is called in its place and executes what follows the death. Only the setup may
// call Mortal.
func (r *Run) Mortal(name string, steps int, f, then func()) {
	var p *proc
	p = r.e.add(name, func() {
		p.live(f)
		p.mortal = false
		then()
	})
	p.mortal, p.left = true, steps
}

// Whole runs f, so that the goroutine may end before or after f (see Mortal), but not within. Other
// goroutines see its steps one by one, as always.
func (r *Run) Whole(f func()) {
	p := r.e.cur
	p.age()
	p.whole = true
	f()
	p.whole = false
}

// age counts a step of p.
func (p *proc) age() {
	if !p.mortal || p.whole {
		return
	}
	if p.left == 0 {
		panic(killed{})
	}
	p.left--
}

// live runs f while p lives.
func (p *proc) live(f func()) {
	defer func() {
		if x := recover(); x != nil && x != any(killed{}) {
			panic(x)
		}
	}()
	f()
}

// End adds a check of the state in which no goroutine can continue.
func (r *Run) End(f func() error) { r.ends = append(r.ends, f) }

// Failf marks the run as failed. Goroutines of the program call it; they continue to their next
// step.
func (r *Run) Failf(format string, args ...any) {
	name := ""
	if r.e.cur != nil {
		name = r.e.cur.name + ": "
	}
	r.e.failed(name+fmt.Sprintf(format, args...), "")
}

// Check is Failf unless ok.
func (r *Run) Check(ok bool, format string, args ...any) {
	if !ok {
		r.Failf(format, args...)
	}
}

// Explore runs the program that setup makes in every order of its steps, except for orders that
// differ only in steps on different objects, and stops at the first failure.
func Explore(cfg Config, setup func(*Run)) Result {
	e := newEngine(cfg, setup)
	defer e.close()
	for !e.fails() {
		e.waiting()
		if e.res.Complete = !e.next(); e.res.Complete || e.res.Runs == e.cfg.MaxRuns {
			break
		}
	}
	return e.res
}

// fails runs one more order and reports whether the program fails in it.
func (e *engine) fails() bool {
	e.execute()
	e.res.Runs++
	if e.fail != nil {
		e.res.Failure = e.explain(e.fail)
	}
	return e.fail != nil
}

// Random runs the program in count random orders, and stops at the first failure.
func Random(cfg Config, seed uint64, count int, setup func(*Run)) Result {
	e := newEngine(cfg, setup)
	defer e.close()
	for k := range count {
		e.random = rand.New(rand.NewPCG(seed, uint64(k)))
		if e.fails() {
			break
		}
	}
	return e.res
}

// Replay runs the program in the order of a Failure's Script, and returns the failure; nil if there
// is none.
func Replay(script string, setup func(*Run)) (*Failure, error) {
	e := newEngine(Config{sites: true}, setup)
	defer e.close()
	var err error
	if e.script, err = parseScript(script); err != nil {
		return nil, err
	}
	e.execute()
	if e.fail == nil {
		return nil, nil
	}
	e.describe(e.fail)
	return e.fail, nil
}

// explain runs the failed order again, to record the source line of each step.
func (e *engine) explain(f *Failure) *Failure {
	r := newEngine(Config{MaxSteps: e.cfg.MaxSteps, sites: true}, e.setup)
	defer r.close()
	if r.script = f.script; len(r.script) == 0 {
		r.script = []int{0}
	}
	r.execute()
	if r.fail == nil || r.fail.Why != f.Why {
		e.describe(f)
		f.Why += " (which did not come again in the same order: the program is not deterministic)"
		return f
	}
	r.describe(r.fail)
	return r.fail
}

// Mark is a moment of a run.
type Mark struct {
	proc int
	time uint32
}

// Now is the moment after the last step of the running goroutine.
func (r *Run) Now() Mark {
	p := r.e.cur
	return Mark{p.id, p.clock[p.id] + 1}
}

// Before reports whether m comes before the present moment in each order that has the same outcome:
// not by chance, but because the steps between order them.
func (r *Run) Before(m Mark) bool {
	p := r.e.cur
	return m.proc == p.id || p.clock[m.proc] >= m.time
}

// Plain says that the running goroutine uses plain memory that belongs to the word x. It is not a
// step. A Free of x must be ordered after it.
func (r *Run) Plain(x any) {
	p := r.e.cur
	o := r.e.object(x)
	if o.freed {
		r.Failf("uses memory that is free")
	}
	o.marks[p.id] = p.clock[p.id] + 1
}

// Free says that the memory of the words is free from now on. It is a failure if one of them is
// used later, or could be used later in another order with the same outcome.
func (r *Run) Free(words ...any) {
	p := r.e.cur
	for _, x := range words {
		o := r.e.object(x)
		for q := range r.e.procs {
			if q != p.id && (o.ops[q] > p.clock[q] || o.marks[q] > p.clock[q]) {
				r.Failf("frees memory that %s may be using still", r.e.procs[q].name)
			}
		}
		o.freed = true
	}
}

// Step is a scheduling point that conflicts with others on the same x.
func Step(x any) {
	if xatomic.Before != nil {
		xatomic.Before(xatomic.Store, x, nil)
		xatomic.After(0, true)
	}
}
