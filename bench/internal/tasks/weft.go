// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"

	"weft/bench/internal/harness"
	"weft/deps"
	"weft/task"
)

// body is what weft runs for a task.
type body = func(*task.Task) error

// weft makes the peer that runs a program on weft: prepare builds the bodies, once for each object,
// and returns the main task.
func weft[P program](newProgram func(size int64) P, prepare func(P) body) harness.Peer {
	open := func(_ context.Context, p harness.Params) (harness.Probe, error) {
		prog := newProgram(p.Size)
		main := prepare(prog)
		rt := task.New(task.Config{Workers: p.Workers})
		run := func(ctx context.Context) error { return rt.Run(ctx, main) }
		return probe(prog, p, run, rt.Close), nil
	}
	return harness.Peer{Name: harness.Ours, Open: open}
}

// spawned is weft without the replay.
const spawned = "spawned"

// rival makes weft's other way to run a program a peer, which goals compare weft with.
func rival(name string, p harness.Peer) harness.Peer {
	p.Name, p.Rival = name, true
	return p
}

// wrap gives bodies the form that Spawn takes.
func wrap(bodies []func()) []body {
	out := make([]body, len(bodies))
	for i, f := range bodies {
		if f != nil {
			out[i] = func(*task.Task) error { f(); return nil }
		}
	}
	return out
}

func (p *independent) weft() body {
	bodies := wrap(p.bodies)
	return func(t *task.Task) error {
		for _, b := range bodies {
			t.Spawn(b)
		}
		return nil
	}
}

func (p *chains) weft() body {
	bodies := wrap(p.bodies)
	return func(t *task.Task) error {
		for range p.length {
			for i, b := range bodies {
				t.Spawn(b, deps.InOut(&p.cells[i]))
			}
		}
		return nil
	}
}

func (p *readers) weft() body {
	write := wrap(p.write)
	read := make([][]body, readerObjects)
	for o := range read {
		read[o] = wrap(p.read[o][:])
	}
	return func(t *task.Task) error {
		for range p.rounds {
			for o := range p.objects {
				object := &p.objects[o]
				t.Spawn(write[o], deps.InOut(object))
				for _, b := range read[o] {
					t.Spawn(b, deps.In(object))
				}
			}
		}
		return nil
	}
}

func (p *blocks) weft() body {
	bodies := wrap(p.bodies)
	return func(t *task.Task) error {
		for range p.steps {
			p.each(func(i int) {
				own, n, w, e, s := p.star(i)
				t.Spawn(bodies[i], deps.InOut(own), deps.In(n), deps.In(w), deps.In(e), deps.In(s))
			})
		}
		return nil
	}
}

// replayed records one step and replays it.
func (p *blocks) replayed() body {
	bodies := wrap(p.bodies)
	return func(t *task.Task) error {
		t.Iterate(p.steps, func(it *task.Iteration) error {
			p.each(func(i int) {
				own, n, w, e, s := p.star(i)
				it.Spawn(bodies[i], deps.InOut(own), deps.In(n), deps.In(w), deps.In(e), deps.In(s))
			})
			return nil
		})
		return nil
	}
}

func (p *forkjoin) weft() body {
	return func(t *task.Task) error { return fibWeft(t, p.n, &p.result) }
}

func fibWeft(t *task.Task, n int, out *int64) error {
	if n < 2 {
		*out = int64(n)
		return nil
	}
	r := new(pair)
	t.Spawn(func(t *task.Task) error { return fibWeft(t, n-1, &r.a) })
	t.Spawn(func(t *task.Task) error { return fibWeft(t, n-2, &r.b) })
	if err := t.Wait(); err != nil {
		return err
	}
	*out = r.a + r.b
	return nil
}
