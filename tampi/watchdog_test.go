// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tampi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/deps"
	"weft/rma"
	"weft/tampi"
	"weft/task"
)

// notifier is a writer that keeps the text and calls f after each write.
type notifier struct {
	bytes.Buffer
	f func()
}

func (w *notifier) Write(p []byte) (int, error) {
	defer w.f()
	return w.Buffer.Write(p)
}

// The watchdog names messages, collectives and fences that the peer does not join: the operation,
// its task, the line that bound it, and the tasks that wait for that task.
func TestWatchdogNamesRequests(t *testing.T) {
	var row [2][4]int64
	errSeen := errors.New("seen")
	line := func(by int) string {
		_, file, n, _ := runtime.Caller(1)
		return fmt.Sprintf("%s:%d", file, n+by)
	}
	var bound, spawned string
	for _, c := range []struct {
		name string
		body func(t *task.Task, c *comm.Comm, w *rma.Win) error
		want []string
	}{
		{"an unsent message", func(t *task.Task, c *comm.Comm, _ *rma.Win) error {
			spawned = line(1)
			t.SpawnWith(task.Attrs{Label: "receives"}, func(t *task.Task) error {
				bound = line(1)
				return tampi.Iwait(t, c.Irecv(comm.Of(row[0][:]), 1, 7))
			}, deps.Out(&row[0]))
			t.SpawnWith(task.Attrs{Label: "uses"}, func(*task.Task) error { return nil }, deps.In(&row[0]))
			return nil
		}, []string{`task "receives" (spawned at `, "waits for 1 event", "Irecv from rank 1, tag 7, at rank 0 of communicator ", "(2 ranks), bound at ",
			`2 tasks wait for it`, `task "uses"`, "waits for In(0x", `after task "receives"`}},
		{"from any rank", func(t *task.Task, c *comm.Comm, _ *rma.Win) error {
			spawned = line(1)
			t.SpawnWith(task.Attrs{Label: "receives"}, func(t *task.Task) error {
				bound = line(1)
				_, err := tampi.Recv(t, c, comm.Of(row[0][:]), comm.AnySource, comm.AnyTag)
				return err
			})
			return nil
		}, []string{`task "receives" (spawned at `, "waits in Await at ", "for Irecv from any rank, tag any, at rank 0 of communicator "}},
		{"a message that no rank receives", func(t *task.Task, c *comm.Comm, _ *rma.Win) error {
			spawned = line(1)
			t.SpawnWith(task.Attrs{Label: "sends"}, func(t *task.Task) error {
				bound = line(1)
				return tampi.Iwait(t, c.Issend(comm.Of(row[0][:]), 1, 8))
			})
			return nil
		}, []string{`task "sends" (spawned at `, "Issend of 32 bytes to rank 1, tag 8, from rank 0 of communicator "}},
		{"a collective", func(t *task.Task, c *comm.Comm, _ *rma.Win) error {
			spawned = line(1)
			t.SpawnWith(task.Attrs{Label: "joins"}, func(t *task.Task) error {
				bound = line(1)
				return tampi.Allreduce(t, c, comm.Of(row[0][:]), comm.Of(row[1][:]), comm.Sum)
			})
			return nil
		}, []string{`task "joins" (spawned at `, "llreduce", " at rank 0 of communicator "}},
		{"a fence", func(t *task.Task, _ *comm.Comm, w *rma.Win) error {
			spawned = line(1)
			t.SpawnWith(task.Attrs{Label: "closes"}, func(t *task.Task) error {
				bound = line(1)
				return tampi.Iwait(t, w.Ifence(0))
			})
			return nil
		}, []string{`task "closes" (spawned at `, "fence of a window, at rank 0 of 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(context.Background())
			got := &notifier{f: func() { cancel(errSeen) }}
			rt := task.New(task.Config{Workers: 2, Watchdog: 20 * time.Millisecond, Reports: got})
			err := comm.Run(ctx, comm.Config{Ranks: 2}, func(k *comm.Comm) error {
				w, _, err := rma.Allocate[int64](k, 4)
				if err != nil {
					return err
				}
				return tampi.Run(rt, k, func(t *task.Task) error {
					if k.Rank() == 1 {
						return nil
					}
					return c.body(t, k, w)
				})
			})
			require.ErrorIs(t, err, errSeen)
			require.NoError(t, rt.Close())
			text := got.String()
			for _, part := range append(c.want, "weft: watchdog: 1 task has waited for 20ms or longer", spawned, bound) {
				require.Contains(t, text, part)
			}
		})
	}
}
