// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	eventcheck "weft/internal/event/check"
	"weft/internal/event/oracle"
	"weft/internal/event/replay"
	"weft/internal/event/timeline"
	"weft/trace"
)

// watched runs the tests of the package. It records all runs in this process that have no recording
// of their own, and checks that the recording is legal.
func watched(tests func() int) (status int) {
	rec, err := oracle.Start()
	if err == nil {
		testRecorder = (*trace.Recorder)(rec)
		status = tests()
		err = oracle.End(rec)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "FAIL: the recording is not legal:", err)
		return 1
	}
	return status
}

// requireLegal checks the recordings of the processes of a run, run.rank0.weft and so on, and their
// common timeline.
func requireLegal(t *testing.T, ranks int) {
	t.Helper()
	var files []string
	for r := range ranks {
		files = append(files, fmt.Sprintf("run.rank%d.weft", r))
	}
	_, partial, err := eventcheck.Files(eventcheck.Options{}, files...)
	require.NoError(t, err)
	if partial {
		require.Fail(t, "events are lost", "there are %v", kinds(t, files))
	}
	var out bytes.Buffer
	require.NoError(t, timeline.Write(&out, files...))
	require.NoError(t, timeline.Verify(bytes.NewReader(out.Bytes())))
	for r := range ranks {
		require.Contains(t, out.String(), fmt.Sprintf(`"name":"rank %d: messages"`, r))
	}
	require.Contains(t, out.String(), `: w"`, "the window's name")
	require.Equal(t, ranks, strings.Count(out.String(), `"name":"epoch 8 is durable"`), "four snapshots, each between two fences")
}

// kinds returns the number of records of each kind.
func kinds(t *testing.T, files []string) map[string]int {
	set, err := replay.Open(files...)
	require.NoError(t, err)
	defer set.Close()
	n := map[string]int{}
	for e, err := range set.Events() {
		require.NoError(t, err)
		n[e.Kind().String()]++
	}
	return n
}
