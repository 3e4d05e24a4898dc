// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
)

// The hammer runs random programs on several goroutines, as a runtime would: each goroutine has its
// Flow, bodies of parents and children run concurrently, and the memory of tasks is reused. In
// programs whose declarations cover the children's, bodies access the objects with plain loads and
// stores. So the race detector finds a missing order, and each reader must read the value of the
// sequential program.

// plan is a task of a program that is known in advance.
type plan struct {
	name string
	list []decl
	accs []decl // combined
	ops  []op
	last bool          // the body accesses its objects again at its end
	want map[int]int64 // values that the body must read in objects that it declares as In
	held bool          // Finish is called by another goroutine, later
	hard bool          // it or a task above it takes objects
	// objects that a task above it has as Commutative, whose values depend on the order
	free map[int]bool

	ranges []rdecl // instead of list, in programs with ranges
}

type op struct {
	child   *plan
	release *decl
	part    *rdecl // the released access, in programs with ranges
}

// job is a task. The node comes first, so that its address is the job's.
type job struct {
	node    chain.Node
	plan    *plan
	parent  *job
	pending atomic.Int32 // the body and the children that are not over
	freed   atomic.Bool
}

func jobOf(n *chain.Node) *job { return (*job)(unsafe.Pointer(n)) }

// planner makes plans and computes the effects of the sequential program.
type planner struct {
	r     *rand.Rand
	p     *profile
	left  int
	value []int64
}

func (pr *planner) task(parent *plan, given map[int]bool, depth int) *plan {
	t := &plan{name: fmt.Sprint(pr.left), want: map[int]int64{}}
	pr.left--
	if parent != nil {
		root := newModelTask(nil)
		m := root.spawn(parent.list)
		m.parent = root
		for _, u := range m.accs {
			u.released = given[u.obj]
		}
		t.list = pr.p.randomList(m, pr.r, parent.hard)
		if depth == 1 { // the root covers everything
			t.list = pr.p.randomList(newModelTask(nil), pr.r, false)
		}
	}
	t.accs = combineDecls(t.list)
	t.hard = takes(t.accs) || parent != nil && parent.hard
	t.inherit(parent)
	t.held = pr.r.IntN(3) == 0
	pr.apply(t)
	mine := map[int]bool{}
	if parent == nil || depth < pr.p.depth && pr.r.Float64() >= pr.p.eager {
		n := 1 + pr.r.IntN(6)
		if parent == nil {
			n = pr.left
		}
		for range n {
			if pr.left <= 0 {
				break
			}
			if pr.r.Float64() < pr.p.release && len(t.accs) > 0 {
				if u := t.accs[pr.r.IntN(len(t.accs))]; !mine[u.obj] {
					mine[u.obj] = true
					t.ops = append(t.ops, op{release: &u})
				}
				continue
			}
			t.ops = append(t.ops, op{child: pr.task(t, mine, depth+1)})
		}
	}
	if len(t.ops) == 0 {
		t.last = true
		pr.apply(t)
	}
	return t
}

func (t *plan) inherit(parent *plan) {
	if parent == nil {
		return
	}
	t.free = maps.Clone(parent.free)
	for _, u := range parent.accs {
		if u.mode == chain.ModeCommutative {
			if t.free == nil {
				t.free = map[int]bool{}
			}
			t.free[u.obj] = true
		}
	}
}

// apply adds the effect of one execution of t's accesses in the sequential program.
func (pr *planner) apply(t *plan) {
	for _, u := range t.accs {
		switch {
		case u.weak, u.mode == chain.ModeReduce:
		case u.mode == chain.ModeIn:
			t.want[u.obj] = pr.value[u.obj]
		default:
			pr.value[u.obj]++
		}
	}
}

// crew runs one plan.
type crew struct {
	objs    []int64
	sums    []*chain.Reduced
	checked bool   // declarations cover the children's, so the bodies access the objects
	keep    int    // number of free jobs that are kept poisoned before reuse
	turn    func() // switches to another goroutine, if one runs at a time; nil for the hammer

	mu    sync.Mutex
	cond  sync.Cond
	ready []*job // to start
	held  []*job // bodies over, to finish
	hands []*hand
	over  bool

	jobs, freed, made atomic.Int64
	failure           atomic.Pointer[string]
}

func (c *crew) access(d decl) chain.Access { return accessOrReduce(&c.objs[d.obj], c.sums[d.obj], d) }

func (c *crew) fail(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	c.failure.CompareAndSwap(nil, &s)
}

// hand is one goroutine of a crew.
type hand struct {
	c    *crew
	flow chain.Flow
	free []*job
	r    *rand.Rand
}

func (c *crew) run(root *plan, workers int, seed uint64) {
	c.begin(root)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(c.newHand(seed, i).loop)
	}
	wg.Wait()
	c.end()
}

func (c *crew) newHand(seed uint64, i int) *hand {
	h := &hand{c: c, r: rand.New(rand.NewPCG(seed, uint64(i)))}
	c.hands = append(c.hands, h)
	return h
}

func (c *crew) begin(root *plan) {
	c.cond.L = &c.mu
	c.sums = sumsOf(c.objs)
	j := &job{plan: root}
	j.pending.Store(1)
	c.jobs.Store(1)
	c.made.Store(1)
	c.ready = []*job{j}
}

func (c *crew) end() {
	for _, h := range c.hands {
		for _, j := range h.free {
			if !chain.Unspoiled(&j.node) {
				c.fail("a free node was touched")
			}
		}
	}
	if len(c.ready)+len(c.held) != 0 {
		c.fail("tasks are left over")
	}
}

func (h *hand) loop() {
	c := h.c
	for {
		c.mu.Lock()
		for len(c.ready)+len(c.held) == 0 && !c.over {
			if c.turn == nil {
				c.cond.Wait()
				continue
			}
			c.mu.Unlock()
			c.turn()
			c.mu.Lock()
		}
		if c.over {
			c.mu.Unlock()
			return
		}
		i := h.r.IntN(len(c.ready) + len(c.held))
		var j *job
		finish := i >= len(c.ready)
		if finish {
			j = takeAt(&c.held, i-len(c.ready))
		} else {
			j = takeAt(&c.ready, i)
		}
		c.mu.Unlock()
		switch {
		case finish:
			h.finish(j)
		case h.admit(j):
			h.body(j)
		}
	}
}

func takeAt(list *[]*job, i int) *job {
	l := *list
	j := l[i]
	l[i] = l[len(l)-1]
	*list = l[:len(l)-1]
	return j
}

func (h *hand) body(j *job) {
	c, p := h.c, j.plan
	h.access(p)
	for _, o := range p.ops {
		if h.r.IntN(4) == 0 {
			runtime.Gosched()
		}
		if o.part != nil {
			if err := j.node.Release(rangeTo(c.objs, *o.part), &h.flow); err != nil {
				c.fail("release: %v", err)
			}
			h.collect(nil)
			continue
		}
		if o.release != nil {
			if err := j.node.Release(c.access(*o.release), &h.flow); err != nil {
				c.fail("release: %v", err)
			}
			h.collect(nil)
			continue
		}
		k := h.job(o.child)
		k.parent = j
		j.pending.Add(1)
		c.jobs.Add(1)
		accs := make([]chain.Access, len(o.child.list), len(o.child.list)+len(o.child.ranges))
		for i, d := range o.child.list {
			accs[i] = c.access(d)
		}
		for _, d := range o.child.ranges {
			accs = append(accs, rangeTo(c.objs, d))
		}
		if j.node.Register(&k.node, accs, &h.flow) {
			h.collect(k)
		} else {
			h.collect(nil)
		}
	}
	if p.last {
		h.access(p)
	}
	if p.held {
		c.mu.Lock()
		c.held = append(c.held, j)
		c.cond.Signal()
		c.mu.Unlock()
		return
	}
	h.finish(j)
}

// access accesses the objects as the plan declares.
func (h *hand) access(p *plan) {
	if !h.c.checked {
		return
	}
	for _, u := range p.accs {
		x := &h.c.objs[u.obj]
		switch {
		case u.weak, u.mode == chain.ModeReduce: // has a private copy
		case u.mode == chain.ModeIn:
			if v := *x; v != p.want[u.obj] && !p.free[u.obj] {
				h.c.fail("task %s reads %d, the sequential program %d", p.name, v, p.want[u.obj])
			}
		case u.mode == chain.ModeConcurrent:
			atomic.AddInt64(x, 1)
		default:
			*x++
		}
	}
}

// admit takes the objects that j needs. If it returns false, j becomes ready again when it has
// them.
func (h *hand) admit(j *job) bool {
	return !j.node.Exclusive() || j.node.Acquire(&h.flow)
}

func (h *hand) finish(j *job) {
	j.node.Finish(&h.flow)
	h.collect(nil)
	over := 0
	for j != nil && j.pending.Add(-1) == 0 {
		up := j.parent
		chain.Retire(&j.node, &h.flow)
		h.collect(nil)
		over++
		j = up
	}
	if over > 0 && h.c.jobs.Add(int64(-over)) == 0 {
		h.c.mu.Lock()
		h.c.over = true
		h.c.cond.Broadcast()
		h.c.mu.Unlock()
	}
}

// collect distributes the jobs that became ready, and first too, and keeps those that are free.
func (h *hand) collect(first *job) {
	var ready []*job
	add := func(j *job) {
		if h.r.IntN(2) == 0 || h.admit(j) { // else when it is taken to be run
			ready = append(ready, j)
		}
	}
	if first != nil {
		add(first)
	}
	for n := h.flow.NextReady(); n != nil; n = h.flow.NextReady() {
		add(jobOf(n))
	}
	for n := h.flow.NextFree(); n != nil; n = h.flow.NextFree() {
		j := jobOf(n)
		if j.freed.Swap(true) || j.pending.Load() != 0 {
			h.c.fail("a node is free twice, or before its task is over")
		}
		h.c.freed.Add(1)
		chain.Poison(n)
		h.free = append(h.free, j)
	}
	if len(ready) > 0 {
		h.c.mu.Lock()
		h.c.ready = append(h.c.ready, ready...)
		h.c.cond.Broadcast()
		h.c.mu.Unlock()
	}
}

// job returns memory for a task: the oldest free job if this goroutine has more than keep.
func (h *hand) job(p *plan) *job {
	if len(h.free) > h.c.keep {
		j := h.free[0]
		h.free = h.free[1:]
		if !chain.Unspoiled(&j.node) {
			h.c.fail("a free node was touched")
		}
		j.plan = p
		j.freed.Store(false)
		j.pending.Store(1)
		h.c.made.Add(1)
		return j
	}
	j := &job{plan: p}
	h.c.made.Add(1)
	j.pending.Store(1)
	return j
}

// TestHammer runs random programs on 2 to 8 goroutines.
func TestHammer(t *testing.T) {
	eachSeed(t, 300, func(t *testing.T, p *profile, seed uint64) {
		big := p.runnable(seed)
		big.tasks *= 4
		hammer(t, &big, seed)
	})
}

// runnable returns p changed so that its programs come to an end. Tasks that declare too little and
// take objects may wait for each other (README.md, "Exclusion"), so a program has only one of
// these.
func (p *profile) runnable(seed uint64) profile {
	q := *p
	q.illegal = 0
	if seed%2 == 0 {
		q.bare = 0
	} else if q.bare > 0 {
		q.modes = slices.DeleteFunc(slices.Clone(q.modes), func(m chain.Mode) bool { return m == chain.ModeCommutative })
	}
	return q
}

func hammer(t *testing.T, p *profile, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	c, pr, root := newCrew(p, r)
	c.run(root, 2+r.IntN(7), seed)
	c.verify(t, p, pr, seed)
}

// newCrew makes a random plan and a crew for it.
func newCrew(p *profile, r *rand.Rand) (*crew, *planner, *plan) {
	pr := &planner{r: r, p: p, left: p.tasks, value: make([]int64, p.objects)}
	root := pr.task(nil, nil, 0)
	c := &crew{objs: make([]int64, p.objects), checked: p.bare == 0, keep: []int{0, 0, 8, 1000}[r.IntN(4)]}
	return c, pr, root
}

// verify checks the outcome of a run.
func (c *crew) verify(t *testing.T, p *profile, pr *planner, seed uint64) {
	if f := c.failure.Load(); f != nil {
		require.Fail(t, *f, "-run '%s' -deps.seed %d", t.Name(), seed)
	}
	if c.checked {
		require.Equal(t, pr.value, c.objs, "-run '%s' -deps.seed %d", t.Name(), seed)
	}
	require.LessOrEqual(t, c.freed.Load(), c.made.Load())
	require.Zero(t, chain.Resources(), "objects are still held; -run '%s' -deps.seed %d", t.Name(), seed)
	if !p.nofree {
		require.Equal(t, c.made.Load(), c.freed.Load(), "not free in the end; -run '%s' -deps.seed %d", t.Name(), seed)
	}
}

// eachSeed calls f with random seeds, count times for each profile, or with the seed of the flag.
func eachSeed(t *testing.T, count int, f func(t *testing.T, p *profile, seed uint64)) {
	if testing.Short() {
		count = (count + 9) / 10
	}
	if *programsFlag > 0 {
		count = *programsFlag
	}
	for i := range profiles {
		p := profiles[i]
		t.Run(p.name, func(t *testing.T) {
			if *seedFlag != 0 {
				f(t, &p, *seedFlag)
				return
			}
			base := rand.Uint64() >> 16
			for k := range count {
				f(t, &p, base+uint64(k))
			}
		})
	}
}
