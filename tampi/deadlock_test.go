// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tampi_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/deps"
	"weft/tampi"
	"weft/task"
)

// A deadlock in which tasks take part ends the run: ranks whose tasks wait for messages, for each
// other's events, or for a slot.
func TestDeadlockWithTasks(t *testing.T) {
	for name, main := range map[string]func(c *comm.Comm) func(t *task.Task) error{
		"tasks wait for messages": func(c *comm.Comm) func(t *task.Task) error {
			return func(t *task.Task) error {
				var x int
				t.SpawnWith(task.Attrs{Label: "receives"}, func(t *task.Task) error {
					_, err := tampi.Recv(t, c, comm.Of(make([]int, 1)), 1-c.Rank(), 7)
					return err
				}, deps.Out(&x))
				t.Spawn(func(t *task.Task) error { return c.Send(comm.Of([]int{x}), 1-c.Rank(), 7) }, deps.In(&x))
				return t.Wait()
			}
		},
		"requests are bound to tasks": func(c *comm.Comm) func(t *task.Task) error {
			return func(t *task.Task) error {
				t.Spawn(func(t *task.Task) error {
					tampi.Iwait(t, c.Irecv(comm.Of(make([]int, 1)), 1-c.Rank(), 7))
					return nil
				})
				return nil
			}
		},
		"bodies block in messages on all slots": func(c *comm.Comm) func(t *task.Task) error {
			return func(t *task.Task) error {
				for range 2 {
					t.Spawn(func(t *task.Task) error {
						_, err := c.Recv(comm.Of(make([]int, 1)), 1-c.Rank(), 7)
						return err
					})
				}
				t.Spawn(func(t *task.Task) error { return c.Send(comm.Of([]int{1}), 1-c.Rank(), 8) })
				return t.Wait()
			}
		},
		"a rank is in a collective, the other's task waits": func(c *comm.Comm) func(t *task.Task) error {
			return func(t *task.Task) error {
				if c.Rank() == 0 {
					return tampi.Barrier(t, c)
				}
				return t.Block()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := comm.Run(context.Background(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
				rt := task.New(task.Config{Workers: 2})
				defer rt.Close()
				return tampi.Run(rt, c, main(c))
			})
			require.ErrorIs(t, err, comm.ErrDeadlock)
			require.ErrorContains(t, err, "rank 0 waits in ")
		})
	}
}

// When the deadline of its context ends a run, the error says what each rank and each task waited
// for. It matches the deadline and its cause.
func TestDeadlineSaysWhatTasksWaitFor(t *testing.T) {
	mine := errors.New("my patience ends")
	want := []string{
		"rank 0 waits in Run at ", "rank 1 waits in Run at ", "Irecv from rank 1, tag 7",
		`task "receives" (spawned at `, "waits in Await",
	}
	var err error
	for limit := 300 * time.Millisecond; limit < 30*time.Second; limit *= 4 {
		// on a busy machine, tasks reach their waits later
		ctx, cancel := context.WithTimeoutCause(context.Background(), limit, mine)
		err = comm.Run(ctx, comm.Config{Ranks: 2}, func(c *comm.Comm) error {
			rt := task.New(task.Config{Workers: 2})
			defer rt.Close()
			return tampi.Run(rt, c, func(t *task.Task) error {
				t.SpawnWith(task.Attrs{Label: "receives"}, func(t *task.Task) error {
					_, err := tampi.Recv(t, c, comm.Of(make([]int, 1)), 1-c.Rank(), 7)
					return err
				})
				return nil
			})
		})
		cancel()
		require.ErrorIs(t, err, mine)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		if !slices.ContainsFunc(want, func(s string) bool { return !strings.Contains(err.Error(), s) }) {
			break
		}
	}
	for _, s := range want {
		require.ErrorContains(t, err, s)
	}
}
