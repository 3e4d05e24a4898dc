// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package wake

import (
	"context"
	"errors"
	"sync"
	"time"

	"weft/bench/internal/harness"
	"weft/task"
)

// peer makes a peer of a function that runs the pings of a sample.
func peer(name string, rival bool, run func(ctx context.Context, p *ping) error) harness.Peer {
	return harness.Peer{Name: name, Rival: rival, Open: func(_ context.Context, p harness.Params) (harness.Probe, error) {
		if err := enough(p); err != nil {
			return harness.Probe{}, err
		}
		return harness.Probe{Sample: sample(p, run)}, nil
	}}
}

// enough skips a peer that has no other worker to wake.
func enough(p harness.Params) error {
	if p.Workers < 2 {
		return harness.Skip("with one worker there is no other to wake")
	}
	return nil
}

func sample(p harness.Params, run func(ctx context.Context, p *ping) error) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		pings := newPing(time.Duration(p.Size)*time.Microsecond, p.MinTime)
		err := run(ctx, pings)
		return pings.median(), err
	}
}

// weft makes a peer of a main task.
func weft(main func(t *task.Task, p *ping) error) harness.Peer {
	return harness.Peer{Name: harness.Ours, Open: func(_ context.Context, p harness.Params) (harness.Probe, error) {
		if err := enough(p); err != nil {
			return harness.Probe{}, err
		}
		rt := task.New(task.Config{Workers: p.Workers})
		run := func(ctx context.Context, p *ping) error {
			return rt.Run(ctx, func(t *task.Task) error { return main(t, p) })
		}
		return harness.Probe{Sample: sample(p, run), Close: rt.Close}, nil
	}}
}

// spawn wakes a parked slot by a new task. The main task keeps its own slot.
func spawn(t *task.Task, p *ping) error {
	body := func(*task.Task) error { p.answer(); return nil }
	return p.run(t.Context(), func() { t.Spawn(body) })
}

// unblock wakes a task that blocks.
func unblock(t *task.Task, p *ping) error {
	var sleeper *task.Task
	ready := make(chan struct{})
	over := false // written before the last Unblock
	t.Spawn(func(t *task.Task) error {
		sleeper = t
		close(ready)
		for {
			if err := t.Block(); err != nil {
				return err
			}
			if over {
				return nil
			}
			p.answer()
		}
	})
	t.Blocking(func() { <-ready })
	err := p.run(t.Context(), func() { sleeper.Unblock() })
	over = true
	sleeper.Unblock()
	return errors.Join(err, t.Wait())
}

// goroutine wakes a goroutine by a channel.
func goroutine(ctx context.Context, p *ping) error {
	wake := make(chan struct{})
	var sleeper sync.WaitGroup
	sleeper.Go(func() {
		for range wake {
			p.answer()
		}
	})
	err := p.run(ctx, func() { wake <- struct{}{} })
	close(wake)
	sleeper.Wait()
	return err
}
