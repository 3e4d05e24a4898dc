// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
	"weft/task/internal/say"
)

// These are the methods in which the bodies of the scripts wait.
const (
	opWait      = "Wait"
	opThrottled = "Spawn, since the throttle is full"
	opBlock     = "Block"
	opSleep     = "Sleep"
	opJoin      = "Detached.Join"
)

// watchedRow is a task of a script: its record, and the tasks that it must wait for.
type watchedRow struct {
	name, parent string
	state        watchState
	accs         []chain.Access
	want         string

	events   int
	released []chain.Access
	loop     bool
	op, on   string // what it waits for
}

// snapshotOf makes a list of such tasks and takes a snapshot. All have one time of birth, and
// numbers that fall, so the snapshot must take their order from their parents' lists.
func snapshotOf(rows []watchedRow) (p *snapshot, records map[string]*Record) {
	w := New(Config{Acquire: func() {}})
	records = map[string]*Record{}
	now := time.Now()
	for _, x := range rows {
		r := w.Enter(-1, records[x.parent], x.name, 0, x.accs, false)
		records[x.name] = r
		r.set(x.state)
		r.born, r.id = now, -r.id
		r.released, r.loop = x.released, x.loop
		for range x.events {
			r.events = append(r.events, &watchEvent{since: time.Now()})
		}
	}
	for _, x := range rows {
		if x.op != "" {
			records[x.name].waits = Wait{Op: x.op, On: records[x.on], Children: x.op == opWait, Passes: x.op == opThrottled}
		}
	}
	return take(w.shards, time.Hour), records
}

// The blockers of a task follow from accesses, in order of creation, and from states.
func TestSnapshotScripts(t *testing.T) {
	var x, y int
	row := make([]int, 8)
	ax := func(accs ...chain.Access) []chain.Access { return accs }
	in, out, inout, conc, comm := ax(chain.Object(&x, chain.ModeIn)), ax(chain.Object(&x, chain.ModeOut)), ax(chain.Object(&x, chain.ModeInOut)), ax(chain.Object(&x, chain.ModeConcurrent)), ax(chain.Object(&x, chain.ModeCommutative))
	weak := func(a []chain.Access) []chain.Access { return ax(a[0].Weak()) }
	part := func(lo, hi int) chain.Range { return chain.Slice(row[lo:hi]) }
	main := watchedRow{name: "main", state: stateRunning}
	for name, rows := range map[string][]watchedRow{
		"neighbours": {
			{name: "w", parent: "main", state: stateRunning, accs: inout},
			{name: "r1", parent: "main", accs: in, want: "w"},
			{name: "r2", parent: "main", accs: in, want: "w"},
			{name: "w2", parent: "main", accs: out, want: "r2"},
			{name: "w3", parent: "main", accs: out, want: "w2"},
			{name: "c1", parent: "main", accs: conc, want: "w3"},
			{name: "c2", parent: "main", accs: conc, want: "w3"},
			{name: "m1", parent: "main", accs: comm, want: "c2"},
			{name: "m2", parent: "main", accs: comm, want: "c2"},
			{name: "w4", parent: "main", accs: inout, want: "m2"},
			{name: "w5", parent: "main", accs: inout, want: "w4"},
			{name: "other", parent: "main", accs: ax(chain.Object(&y, chain.ModeInOut))},
			{name: "none", parent: "main"},
			{name: "both", parent: "main", accs: ax(chain.Object(&y, chain.ModeIn), chain.Object(&x, chain.ModeIn)), want: "other,w5"},
		},
		"ranges": {
			{name: "a", parent: "main", state: stateRunning, accs: ax(part(0, 4).Access(chain.ModeInOut))},
			{name: "b", parent: "main", state: stateRunning, accs: ax(part(4, 8).Access(chain.ModeInOut))},
			{name: "c", parent: "main", accs: ax(part(3, 4).Access(chain.ModeIn)), want: "a"},
			{name: "d", parent: "main", accs: ax(part(4, 5).Access(chain.ModeIn)), want: "b"},
			{name: "e", parent: "main", accs: ax(part(3, 5).Access(chain.ModeIn)), want: "a,b"},
			{name: "f", parent: "main", accs: ax(part(3, 5).Access(chain.ModeInOut), part(4, 6).Access(chain.ModeIn).Weak()), want: "e"},
		},
		"parts of ranges that are given up": {
			{name: "a", parent: "main", state: stateRunning, accs: ax(part(0, 8).Access(chain.ModeInOut)), released: ax(part(4, 6).Access(chain.ModeInOut), part(2, 4).Access(chain.ModeInOut))},
			{name: "b", parent: "main", accs: ax(part(2, 6).Access(chain.ModeIn))},
			{name: "c", parent: "main", accs: ax(part(1, 6).Access(chain.ModeIn)), want: "a"},
			{name: "d", parent: "main", accs: ax(part(2, 7).Access(chain.ModeIn)), want: "a"},
		},
		"objects are known by their bytes once there has been a range": {
			{name: "gone", parent: "main", state: stateOver, accs: ax(part(0, 1).Access(chain.ModeIn))},
			{name: "a", parent: "main", state: stateRunning, accs: ax(chain.Object((*[4]int)(row), chain.ModeOut))},
			{name: "b", parent: "main", accs: ax(chain.Object(&row[2], chain.ModeIn)), want: "a"},
		},
		"and by their addresses before": {
			{name: "a", parent: "main", state: stateRunning, accs: ax(chain.Object((*[4]int)(row), chain.ModeOut))},
			{name: "b", parent: "main", accs: ax(chain.Object(&row[2], chain.ModeIn))},
			{name: "none", parent: "main", accs: ax(part(1, 1).Access(chain.ModeIn))},
			{name: "c", parent: "main", accs: ax(chain.Object(&row[2], chain.ModeOut)), want: "b"},
		},
		"a weak access does not wait": {
			{name: "w", parent: "main", state: stateRunning, accs: inout},
			{name: "weak", parent: "main", accs: weak(inout)},
		},
		"a child waits for its weak parent": {
			{name: "w", parent: "main", state: stateRunning, accs: inout},
			{name: "weak", parent: "main", state: stateRunning, accs: weak(inout)},
			{name: "child", parent: "weak", accs: inout, want: "w"},
			{name: "next", parent: "weak", accs: inout, want: "child"},
			{name: "nest", parent: "weak", state: stateRunning, accs: weak(inout)},
			{name: "deep", parent: "nest", accs: inout, want: "next"},
		},
		"a writer below a weak reader waits for readers": {
			{name: "w", parent: "main", state: stateRunning, accs: inout},
			{name: "r", parent: "main", accs: in, want: "w"},
			{name: "weak", parent: "main", state: stateRunning, accs: weak(in)},
			{name: "child", parent: "weak", accs: inout, want: "r"},
			{name: "reads", parent: "weak", state: stateRunning, accs: weak(in)},
			{name: "below", parent: "reads", accs: in, want: "child"},
		},
		"a writer below a weak writer waits for readers": {
			{name: "r", parent: "main", state: stateRunning, accs: in},
			{name: "weak", parent: "main", state: stateRunning, accs: weak(inout)},
			{name: "child", parent: "weak", accs: inout, want: "r"},
		},
		"not for its strong parent, nor past a task that declares nothing": {
			{name: "w", parent: "main", state: stateRunning, accs: inout},
			{name: "strong", parent: "main", state: stateRunning, accs: inout},
			{name: "child", parent: "strong", accs: inout},
			{name: "bare", parent: "main", state: stateRunning},
			{name: "child2", parent: "bare", accs: inout},
		},
		"children of a task that is over keep an object": {
			{name: "weak", parent: "main", state: stateReleased, accs: weak(inout), want: "user,later"},
			{name: "user", parent: "weak", state: stateRunning, accs: inout},
			{name: "later", parent: "weak", state: stateRunning, accs: ax(chain.Object(&y, chain.ModeInOut))},
			{name: "next", parent: "main", accs: in, want: "user"},
			{name: "gone", parent: "main", state: stateReleased, accs: ax(chain.Object(&y, chain.ModeInOut))},
			{name: "free", parent: "main", accs: ax(chain.Object(&y, chain.ModeIn))},
		},
		"a reader does not wait for readers below a task that is over": {
			{name: "over", parent: "main", state: stateReleased, accs: in, want: "writes,reads"},
			{name: "writes", parent: "over", state: stateRunning, accs: inout},
			{name: "reads", parent: "over", state: stateRunning, accs: in},
			{name: "next", parent: "main", accs: in},
			{name: "later", parent: "main", accs: inout, want: "next"},
		},
		"given up": {
			{name: "a", parent: "main", state: stateRunning, accs: inout, released: inout},
			{name: "child", parent: "a", state: stateRunning, accs: ax(chain.Object(&y, chain.ModeInOut))},
			{name: "b", parent: "main", accs: in},
			{name: "c", parent: "main", state: stateRunning, accs: ax(chain.Object(&y, chain.ModeInOut)), released: inout},
			{name: "d", parent: "main", accs: ax(chain.Object(&y, chain.ModeIn)), want: "c"},
		},
		"given up, except by a child": {
			{name: "a", parent: "main", state: stateRunning, accs: inout, released: inout},
			{name: "child", parent: "a", state: stateRunning, accs: inout},
			{name: "b", parent: "main", accs: in, want: "child"},
		},
		"commutative, held elsewhere": {
			{name: "far", parent: "main", state: stateRunning},
			{name: "has", parent: "far", state: stateRunning, accs: comm},
			{name: "wants", parent: "main", accs: comm, want: "has"},
			{name: "reads", parent: "far", accs: in, want: "has"},
		},
		"commutative, not held": {
			{name: "far", parent: "main", state: stateRunning},
			{name: "spawned", parent: "far", accs: comm},
			{name: "rests", parent: "far", state: stateResting, accs: comm},
			{name: "weak", parent: "far", state: stateRunning, accs: weak(comm)},
			{name: "gave", parent: "far", state: stateRunning, accs: comm, released: comm},
			{name: "over", parent: "far", state: stateReleased, accs: comm},
			{name: "wants", parent: "main", accs: comm},
		},
		"commutative, held by an ancestor": {
			{name: "has", parent: "main", state: stateRunning, accs: comm},
			{name: "child", parent: "has", accs: comm},
			{name: "bare", parent: "has", state: stateRunning},
			{name: "wants", parent: "bare", accs: comm, want: "has"},
			{name: "two", parent: "bare", accs: ax(comm[0], chain.Object(&y, chain.ModeCommutative)), want: "has"},
		},
		"declared twice": {
			{name: "a", parent: "main", state: stateRunning, accs: ax(chain.Object(&x, chain.ModeIn).Weak(), chain.Object(&x, chain.ModeInOut))},
			{name: "b", parent: "main", accs: in, want: "a"},
			{name: "c", parent: "main", state: stateRunning, accs: ax(chain.Object(&x, chain.ModeConcurrent), chain.Object(&x, chain.ModeIn).Weak())},
			{name: "d", parent: "main", accs: conc, want: "c"},
			{name: "e", parent: "c", accs: inout},
		},
		"parts of a loop": {
			{name: "p1", parent: "main", state: stateRunning, accs: inout, loop: true},
			{name: "p2", parent: "main", accs: inout, loop: true},
		},
		"states": {
			{name: "ready", parent: "main", state: stateSpawned, accs: inout, events: 1},
			{name: "held", parent: "main", state: stateSpawned, accs: inout, events: 1},
			{name: "wait", parent: "main", state: stateWaiting, op: opWait, want: "w1,w2"},
			{name: "w1", parent: "wait", state: stateRunning},
			{name: "w2", parent: "wait", state: stateRunning},
			{name: "join", parent: "main", state: stateWaiting, op: opJoin, on: "w2", want: "w2"},
			{name: "block", parent: "main", state: stateWaiting, op: opBlock},
			{name: "b1", parent: "block", state: stateRunning},
			{name: "returned", parent: "main", state: stateReturned, want: "r1"},
			{name: "r1", parent: "returned", state: stateRunning},
			{name: "bound", parent: "main", state: stateReturned, events: 2},
			{name: "d1", parent: "bound", state: stateRunning},
			{name: "gone", parent: "main", state: stateOver},
		},
	} {
		rows = append([]watchedRow{main}, rows...)
		p, _ := snapshotOf(rows)
		at := map[string]*seen{}
		for i := range p.seen {
			at[p.seen[i].rec.label] = &p.seen[i]
		}
		for _, r := range rows {
			s := at[r.name]
			if require.Equal(t, r.state == stateOver, s == nil, "%s: %s", name, r.name); s == nil {
				continue
			}
			var got []string
			for _, b := range s.blockers {
				got = append(got, p.seen[b.on].rec.label)
			}
			require.Equal(t, r.want, strings.Join(got, ","), "%s: the blockers of %s", name, r.name)
			if r.parent == "" {
				require.Equal(t, -1, s.parent)
			} else {
				require.Equal(t, r.parent, p.seen[s.parent].rec.label)
			}
		}
	}
}

// A task is stuck from the limit on, if it waits for something that is not a task and does not end
// by itself.
func TestSnapshotStuck(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	event := func(d time.Duration) watchEvent { return watchEvent{since: ago(d)} }
	other := &Record{}
	for name, c := range map[string]struct {
		x     seen
		since time.Duration
		ok    bool
	}{
		"runs":               {seen{status: status{state: stateRunning, since: ago(9)}}, 0, false},
		"Block":              {seen{status: status{state: stateWaiting, since: ago(9), waits: Wait{Op: opBlock}}}, 9, true},
		"Wait":               {seen{status: status{state: stateWaiting, since: ago(9), waits: Wait{Op: opWait, Children: true}}}, 0, false},
		"the throttle":       {seen{status: status{state: stateWaiting, since: ago(9), waits: Wait{Op: opThrottled, Passes: true}}}, 0, false},
		"Join":               {seen{status: status{state: stateWaiting, since: ago(9), waits: Wait{Op: opJoin, On: other}}}, 0, false},
		"Sleep":              {seen{status: status{state: stateWaiting, since: ago(9), waits: Wait{Op: opSleep, Due: now.Add(1)}}}, 0, false},
		"Sleep that is over": {seen{status: status{state: stateWaiting, since: ago(9), waits: Wait{Op: opSleep, Due: now}}}, 9, true},
		"events":             {seen{status: status{state: stateReturned, since: ago(1)}, events: []watchEvent{event(5), event(7), event(6)}}, 7, true},
		"OnReady's events":   {seen{status: status{state: stateSpawned, since: ago(1)}, events: []watchEvent{event(8), event(7)}}, 8, true},
		"no events":          {seen{status: status{state: stateSpawned, since: ago(9)}}, 0, false},
		"released":           {seen{status: status{state: stateReleased, since: ago(9)}, events: []watchEvent{event(5)}}, 0, false},
	} {
		since, ok := c.x.waitsOutside(now)
		require.Equal(t, c.ok, ok, name)
		if ok {
			require.Equal(t, c.since, now.Sub(since), name)
		}
	}
	for age := time.Duration(99); age <= 101; age++ {
		x := seen{rec: &Record{}, status: status{state: stateWaiting, since: ago(age), waits: Wait{Op: opBlock}}}
		p := &snapshot{at: now, limit: 100, seen: []seen{x}}
		p.findStuck()
		require.Equal(t, age >= 100, len(p.stuck) == 1, "after %d of 100", age)
		require.Equal(t, age >= 100, !p.seen[0].stuckSince.IsZero())
	}
}

// Tasks that wait for each other are stuck at once, and the first blocker of each is the next one
// of the cycle; unless one of their records has changed since it was read.
func TestSnapshotCycles(t *testing.T) {
	rows := []watchedRow{
		{name: "main", state: stateRunning},
		{name: "a", parent: "main", state: stateWaiting, op: opWait},
		{name: "a1", parent: "a", state: stateWaiting, op: opBlock},
		{name: "a2", parent: "a", state: stateWaiting, op: opJoin, on: "b"},
		{name: "b", parent: "main", state: stateWaiting, op: opJoin, on: "a"},
		{name: "c", parent: "main", state: stateWaiting, op: opJoin, on: "a"},
	}
	p, records := snapshotOf(rows)
	var in []string
	for _, i := range p.stuck {
		x := &p.seen[i]
		in = append(in, x.rec.label+" after "+p.seen[x.blockers[0].on].rec.label)
		require.True(t, x.inCycle)
		require.Equal(t, x.since, x.stuckSince)
	}
	require.ElementsMatch(t, []string{"a after a2", "a2 after b", "b after a"}, in)

	for _, changed := range []string{"a", "a2", "b"} {
		old := *p
		old.stuck, old.seen = nil, append([]seen(nil), p.seen...)
		for i := range old.seen {
			old.seen[i].inCycle, old.seen[i].stuckSince = false, time.Time{}
		}
		records[changed].version++
		old.findCycles()
		require.Empty(t, old.stuck, changed)
		records[changed].version--
		old.findCycles()
		require.Len(t, old.stuck, 3)
	}
}

// A report has the state of each task, and its lists are short enough for a person to read.
func TestSnapshotText(t *testing.T) {
	now := time.Now()
	record := func(label string) *Record {
		return &Record{label: label, born: now.Add(-5 * time.Second), parent: &Record{}}
	}
	lines := func(f func(b *strings.Builder)) []string {
		var b strings.Builder
		f(&b)
		return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	}
	p := &snapshot{at: now, limit: time.Second}
	for _, n := range []int{0, 1, 7, 8, 9, 10} {
		x := make([]int, n)
		p.seen = nil
		for i := range n {
			p.seen = append(p.seen, seen{rec: record(fmt.Sprint("on ", i)), status: status{state: stateRunning, since: now.Add(-1234 * time.Microsecond)}})
		}
		var on []blocker
		var events []watchEvent
		for i := range n {
			on = append(on, blocker{on: i, access: chain.Object(&x[i/2], chain.ModeIn)})
			events = append(events, watchEvent{since: now.Add(-time.Second), what: []any{nil, "a message"}[i%2]})
		}
		at := len(p.seen)
		more := func(k int) string { return fmt.Sprintf(" %d more", n-k) }
		text := func(x seen) []string {
			x.rec, x.since = record("x"), now.Add(-2*time.Second)
			p.seen = append(p.seen[:at], x)
			l := lines(func(b *strings.Builder) { p.task(b, "  ", at) })
			require.True(t, strings.HasPrefix(l[0], `  task "x" (spawned at an unknown location), 5s old: `), l[0])
			return l
		}
		count := func(s, of string) int { return strings.Count(s, of) }

		l := text(seen{status: status{state: stateSpawned}, blockers: on})
		require.Len(t, l, 1)
		require.Equal(t, (min(n, maxDependents)+1)/2, count(l[0], "waits for In("), "two tasks after each access: %s", l[0])
		require.Equal(t, min(n, maxDependents), count(l[0], `task "on `), l[0])
		require.Equal(t, n == 0, strings.Contains(l[0], "is ready, and waits for a slot"))
		require.Equal(t, max((min(n, maxDependents)+1)/2-1, 0), count(l[0], ", and waits for In("))
		require.Equal(t, n > 8, strings.HasSuffix(l[0], ", and for"+more(8)), l[0])

		l = text(seen{status: status{state: stateWaiting, waits: Wait{Op: opWait, Children: true}}, blockers: on})
		require.Len(t, l, 1)
		require.Contains(t, l[0], "waits in Wait at an unknown location for 2s")
		require.Equal(t, min(n, 8), count(l[0], `task "on `))
		require.Equal(t, min(n, 1), count(l[0], `, for task "on 0"`))
		require.Equal(t, n > 8, strings.HasSuffix(l[0], " and"+more(8)), l[0])

		l = text(seen{status: status{state: stateReturned}, blockers: on, events: events})
		if n == 0 {
			require.Contains(t, l[0], "it keeps its accesses until its descendants are over (0 children), for 2s")
		} else {
			require.True(t, strings.HasSuffix(l[0], "its body is over, and it waits for "+say.Plural(n, "event")+":"), l[0])
			require.Len(t, l, 1+min(n, 8)+min(max(n-8, 0), 1))
			require.Equal(t, "    a Hold, bound at an unknown location, 1s ago", l[1])
		}
		if n > 1 {
			require.Equal(t, "    a message, bound at an unknown location, 1s ago", l[2])
		}
		require.Equal(t, n > 8, l[len(l)-1] == "    and"+more(8))
		if l = text(seen{status: status{state: stateSpawned}, events: events}); n > 0 {
			require.True(t, strings.HasSuffix(l[0], "has its accesses; OnReady has bound "+say.Plural(n, "event")+":"), l[0])
		}

		children := fmt.Sprintf("(%d children)", n)
		if n == 1 {
			children = "(1 child)"
		}
		require.Contains(t, text(seen{status: status{state: stateReleased}, blockers: on})[0], "its body is over, and it waits for its descendants "+children)
		require.Contains(t, text(seen{status: status{state: stateRunning}})[0], "runs, for 2s")
		require.Contains(t, text(seen{status: status{state: stateResting}})[0], "of a recorded loop, waits for its next turn")
		due := now.Add(time.Hour)
		l = text(seen{status: status{state: stateWaiting, waits: Wait{Op: opSleep, What: "me", Due: due}}})
		require.Contains(t, l[0], ", for me, until "+due.Format("15:04:05.000"))

		// n tasks wait for one stuck task, and each for the task before it.
		p.seen = p.seen[:at]
		p.seen = append(p.seen, seen{rec: record("x"), status: status{state: stateWaiting, since: now, waits: Wait{Op: opBlock}}})
		for i := range n {
			p.seen[i].blockers = []blocker{{on: at}}
			if i > 0 {
				p.seen[i].blockers = append(p.seen[i].blockers, blocker{on: i - 1})
			}
		}
		p.stuck = []int{at}
		l = lines(p.describeStuck)
		require.Equal(t, "1 task has waited for 1s or longer for something that no task of the runtime provides:", l[0])
		if n == 0 {
			require.Len(t, l, 2)
		} else {
			require.Equal(t, []string{"    1 task waits for it:", fmt.Sprintf("    %d tasks wait for it:", n)}[min(n-1, 1)], l[2])
			require.Len(t, l, 3+min(n, 8)+min(max(n-8, 0), 1))
			require.Equal(t, n > 8, l[len(l)-1] == "      and"+more(8))
		}
	}
	for n := maxListed - 1; n <= maxListed+1; n++ {
		p.seen, p.stuck = nil, nil
		for i := range n {
			p.seen, p.stuck = append(p.seen, seen{rec: record("s"), status: status{state: stateWaiting, since: now, waits: Wait{Op: opBlock}}}), append(p.stuck, i)
		}
		last := "  and 1 more"
		l := lines(func(b *strings.Builder) { p.describeStuck(b) })
		require.Equal(t, fmt.Sprintf("%d tasks have waited for 1s or longer for something that no task of the runtime provides:", n), l[0])
		require.Len(t, l, 1+n)
		require.Equal(t, n > maxListed, l[len(l)-1] == last)
		p.stuck = nil
		l = lines(p.describe)
		require.Equal(t, fmt.Sprintf("  %d live tasks", n), l[0])
		require.Len(t, l, 1+n)
		require.Equal(t, n > maxListed, l[len(l)-1] == last)
	}
	p.seen[0].inCycle, p.seen[2].inCycle = true, true
	p.stuck = []int{0, 1, 2}
	l := lines(p.describeStuck)
	require.Equal(t, "2 tasks wait for each other and can never go on:", l[0])
	require.True(t, strings.HasPrefix(l[3], "1 task has waited"), l[3])
	require.Len(t, l, 5)
	p.stuck = []int{0, 2}
	require.Len(t, lines(p.describeStuck), 3)
}

// Times are rounded for reading.
func TestShortTimes(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		123_456_789:                 123_500_000,
		time.Second:                 time.Second,
		time.Second + 1_049_000_000: 2 * time.Second,
		10 * time.Second:            10 * time.Second,
		9_999_960_000:               10 * time.Second,
		12_600_000_000:              13 * time.Second,
		999_949_999:                 999_900_000,
	} {
		require.Equal(t, want, say.Short(d), "%v", d)
	}
}
