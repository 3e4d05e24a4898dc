// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build weftlint && race

package linttest

import (
	"context"

	"weft/comm"
	"weft/deps"
	"weft/tampi"
	"weft/task"
)

// onTwoRanks runs a body on each of two ranks, each with its own runtime, inside task t.
func onTwoRanks(t *task.Task, bodies ...func(t *task.Task, c *comm.Comm) error) (err error) {
	t.Blocking(func() {
		err = comm.Run(context.Background(), comm.Config{Ranks: len(bodies)}, func(c *comm.Comm) error {
			rt := task.New(task.Config{Workers: 1 + c.Rank()})
			defer func() { _ = rt.Close() }()
			return tampi.Run(rt, c, func(t *task.Task) error { return bodies[c.Rank()](t, c) })
		})
	})
	return err
}

const (
	few  = 8       // elements of an eager message
	many = 1 << 16 // elements of a message that is copied when both sides have arrived
)

// receiver receives n messages.
func receiver(n, count int) func(*task.Task, *comm.Comm) error {
	return func(t *task.Task, c *comm.Comm) error {
		b := make([]int, count)
		for range n {
			t.Spawn(func(t *task.Task) error {
				_, err := tampi.Recv(t, c, comm.Of(b), 0, 1)
				return err
			}, deps.Slice(b).Out())
		}
		return nil
	}
}

// Messages are accesses too: to the memory that is sent or received, until the request is complete.
var messageMistakes = []mistake{
	{"E1", "a message from undeclared memory", []string{"DATA RACE", "@filled", "comm."}, func(t *task.Task, right bool) error {
		return onTwoRanks(t, func(t *task.Task, c *comm.Comm) error {
			b := make([]int, few)
			t.Spawn(func(*task.Task) error { fill(b, 1); return nil }, deps.Slice(b).Out())
			t.Spawn(func(t *task.Task) error { return tampi.Send(t, c, comm.Of(b), 1, 1) }, unless(right, deps.Slice(b).In())...)
			return nil
		}, receiver(1, few))
	}},
	{"E1", "a long message from undeclared memory", []string{"DATA RACE", "@filled", "comm."}, func(t *task.Task, right bool) error {
		return onTwoRanks(t, func(t *task.Task, c *comm.Comm) error {
			b := make([]int, many)
			t.Spawn(func(*task.Task) error { fill(b, 1); return nil }, deps.Slice(b).Out())
			t.Spawn(func(t *task.Task) error { return tampi.Send(t, c, comm.Of(b), 1, 1) }, unless(right, deps.Slice(b).In())...)
			return nil
		}, receiver(1, many))
	}},
	{"E1", "a message into undeclared memory", []string{"DATA RACE", "@sum", "comm."}, func(t *task.Task, right bool) error {
		return onTwoRanks(t, func(t *task.Task, c *comm.Comm) error {
			b := make([]int, few)
			return tampi.Send(t, c, comm.Of(b), 1, 1)
		}, func(t *task.Task, c *comm.Comm) error {
			b := make([]int, few)
			t.Spawn(func(t *task.Task) error {
				_, err := tampi.Recv(t, c, comm.Of(b), 0, 1)
				return err
			}, unless(right, deps.Slice(b).Out())...)
			spawnSum(t, b, deps.Slice(b).In())
			return nil
		})
	}},
	{"E1", "a successor of a bound receive", []string{"DATA RACE", "@sum", "comm."}, func(t *task.Task, right bool) error {
		return onTwoRanks(t, func(t *task.Task, c *comm.Comm) error {
			b := make([]int, few)
			return tampi.Send(t, c, comm.Of(b), 1, 1)
		}, func(t *task.Task, c *comm.Comm) error {
			b := make([]int, few)
			t.Spawn(func(t *task.Task) error { return tampi.Iwait(t, c.Irecv(comm.Of(b), 0, 1)) }, deps.Out(&b[0]), deps.Slice(b).Out())
			spawnSum(t, b, unless(right, deps.Slice(b).In())...)
			return nil
		})
	}},
	{"E1", "a successor of a bound send", []string{"DATA RACE", "@filled", "comm."}, func(t *task.Task, right bool) error {
		return onTwoRanks(t, func(t *task.Task, c *comm.Comm) error {
			b := make([]int, many)
			t.Spawn(func(t *task.Task) error { return tampi.Iwait(t, c.Isend(comm.Of(b), 1, 1)) }, deps.Slice(b).In())
			t.Spawn(func(*task.Task) error { fill(b, 1); return nil }, unless(right, deps.Slice(b).Out())...)
			return nil
		}, receiver(1, many))
	}},
	{"E1", "a reduction of undeclared memory", []string{"DATA RACE", "@filled", "comm."}, func(t *task.Task, right bool) error {
		body := func(t *task.Task, c *comm.Comm) error {
			in, out := make([]int, few), make([]int, few)
			t.Spawn(func(*task.Task) error { fill(in, 1); return nil }, deps.Slice(in).Out())
			t.Spawn(func(t *task.Task) error {
				return tampi.Iwait(t, c.Iallreduce(comm.Of(in), comm.Of(out), comm.Sum))
			}, append(unless(right, deps.Slice(in).In()), deps.Slice(out).Out())...)
			return nil
		}
		return onTwoRanks(t, body, body)
	}},
	{"E3", "a child receives into memory that its parent does not cover", []string{"DATA RACE|conflicting accesses that nothing orders", "@sum|has not declared"}, func(t *task.Task, right bool) error {
		return onTwoRanks(t, func(t *task.Task, c *comm.Comm) error {
			b := make([]int, few)
			return tampi.Send(t, c, comm.Of(b), 1, 1)
		}, func(t *task.Task, c *comm.Comm) error {
			b := make([]int, few)
			t.Spawn(func(t *task.Task) error {
				t.Spawn(func(t *task.Task) error { return tampi.Iwait(t, c.Irecv(comm.Of(b), 0, 1)) }, deps.Slice(b).Out())
				return nil
			}, unless(right, deps.Slice(b).Out().Weak())...)
			spawnSum(t, b, deps.Slice(b).In())
			return nil
		})
	}},
	{"E5", "a missing Wait for a receive", []string{"DATA RACE", "@received", "comm."}, func(t *task.Task, right bool) error {
		return onTwoRanks(t, func(t *task.Task, c *comm.Comm) error {
			b := make([]int, few)
			return tampi.Send(t, c, comm.Of(b), 1, 1)
		}, func(t *task.Task, c *comm.Comm) error {
			b := make([]int, few)
			t.Spawn(func(t *task.Task) error { return tampi.Iwait(t, c.Irecv(comm.Of(b), 0, 1)) }, deps.Slice(b).Out())
			if right {
				if err := t.Wait(); err != nil {
					return err
				}
			}
			seen[30] = b[0] // @received
			return nil
		})
	}},
	{"E6", "a Release before the receive is complete", []string{"DATA RACE", "@sum", "comm."}, func(t *task.Task, right bool) error {
		return onTwoRanks(t, func(t *task.Task, c *comm.Comm) error {
			b := make([]int, few)
			if _, err := tampi.Recv(t, c, comm.Of(b), 1, 2); err != nil {
				// the message says that the memory has been released
				return err
			}
			return tampi.Send(t, c, comm.Of(b), 1, 1)
		}, func(t *task.Task, c *comm.Comm) error {
			b := make([]int, few)
			t.Spawn(func(t *task.Task) error {
				r := c.Irecv(comm.Of(b), 0, 1)
				if !right {
					if err := t.Release(deps.Slice(b).Out()); err != nil {
						return err
					}
				}
				if err := tampi.Send(t, c, comm.Of(make([]int, few)), 0, 2); err != nil {
					return err
				}
				return tampi.Iwait(t, r)
			}, deps.Slice(b).Out())
			spawnSum(t, b, deps.Slice(b).In())
			return nil
		})
	}},
}
