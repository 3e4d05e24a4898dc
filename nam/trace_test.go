// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/internal/event/check"
	"weft/internal/event/output"
	"weft/internal/event/replay"
	"weft/internal/event/timeline"
	"weft/nam"
	"weft/rma"
	"weft/trace"
)

// A trace has the memory of a window, its epochs and its end, in the order in which they happen,
// and so has the timeline.
func TestTraceRecords(t *testing.T) {
	for _, sync := range []nam.Sync{nam.SyncProcess, nam.SyncEpoch} {
		s := newTestStore(t, nam.Config{})
		file := filepath.Join(t.TempDir(), "run.weft")
		rec, err := output.Open(file, 0)
		require.NoError(t, err)
		err = comm.Run(t.Context(), comm.Config{Ranks: 2, Trace: (*trace.Recorder)(rec)}, func(c *comm.Comm) error {
			w, err := s.Allocate(c, 8, 8, sync, nam.Name("plate"))
			if err != nil {
				return err
			}
			if err := w.Fence(0); err != nil {
				return err
			}
			err = errors.Join(w.Put(comm.Of([]int64{7}), 1-c.Rank(), 0), w.Fence(rma.NoSucceed))
			a, e := s.Attach(c, "plate")
			if err = errors.Join(err, e); err != nil {
				return err
			}
			return errors.Join(a.Free(), w.Free())
		})
		require.NoError(t, err)
		require.NoError(t, rec.Close())
		_, partial, err := check.Files(check.Options{}, file)
		require.NoError(t, err)
		require.False(t, partial)

		set, err := replay.Open(file)
		require.NoError(t, err)
		var story []string
		for e, err := range set.Events() {
			require.NoError(t, err)
			if e.Source.Location.Index == 0 && e.Kind().Info().Group == "windows" {
				text := set.Describe(e)
				if _, after, ok := strings.Cut(text, ": "); ok && strings.HasPrefix(text, "request") {
					text = after // the request's number varies
				}
				story = append(story, text)
			}
		}
		set.Close()
		require.Equal(t, []string{
			"window 1 has 2 regions; that of this rank has 8 bytes",
			`window 1 is network-attached memory, allocated as "plate"`,
			"fence of window 1, which is to close epoch 1: opens",
			"epoch 1 of window 1 survives the end of the program",
			"epoch 1 of window 1 is closed at this rank",
			"operation 1 of window 1, in epoch 2: put 8 bytes in the region of rank 1",
			"operation 1 of window 1 has ended at this rank: completed; other processes see its effect when the epoch is closed",
			"fence of window 1, which is to close epoch 2: -",
			"epoch 2 of window 1 survives the end of the program",
			"epoch 2 of window 1 is closed at this rank",
			"window 3 has 2 regions; that of this rank has 8 bytes",
			`window 3 is network-attached memory, attached to as "plate"`,
			"fence of window 3, which is to close epoch 1: last",
			"epoch 1 of window 3 is closed at this rank",
			"window 3 is freed at this rank",
			"fence of window 1, which is to close epoch 3: last",
			"epoch 3 of window 1 is closed at this rank",
			"window 1 is freed at this rank",
			"the memory of window 1 is released; its name may be used again",
		}, story, "%v", sync)

		var out bytes.Buffer
		require.NoError(t, timeline.Write(&out, file))
		require.NoError(t, timeline.Verify(bytes.NewReader(out.Bytes())))
		require.Contains(t, out.String(), `"name":"window 1: plate"`)
		require.Contains(t, out.String(), `"name":"epoch 2 is durable"`)
		require.NoError(t, os.Remove(file))
	}
}
