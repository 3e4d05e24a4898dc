// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package cpuprof

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

func TestGroup(t *testing.T) {
	for function, want := range map[string]string{
		"weft/task.(*worker).run":                     "task",
		"weft/deps.(*Domain).link":                    "deps",
		"weft/internal/fabric/inproc.(*port).send":    "internal",
		"weft/comm.OpFunc[go.shape.float64]":          "comm",
		"weft/comm.reduce[weft/bench/internal.T]":     "comm",
		"weft/bench/internal/tasks.(*cell).step":      "user",
		"weft/examples/heat/kernel.Fast":              "user",
		"main.main.func1":                             "user",
		"runtime.mallocgc":                            "runtime",
		"internal/runtime/atomic.(*Uint32).Load":      "runtime",
		"sync.(*Mutex).Lock":                          "runtime",
		"memeqbody":                                   "runtime",
		"github.com/panjf2000/ants/v2.(*Pool).Submit": "github.com/panjf2000/ants/v2",
	} {
		require.Equal(t, want, Group(function), function)
	}
}

func TestTopCountsInnermostFunction(t *testing.T) {
	fn := func(id uint64, name string) *profile.Function { return &profile.Function{ID: id, Name: name} }
	inlined, outer, other := fn(1, "weft/deps.pass"), fn(2, "weft/task.run"), fn(3, "runtime.futex")
	add := fn(4, "sync/atomic.(*Int32).Add")
	leaf := &profile.Location{ID: 1, Line: []profile.Line{{Function: add}, {Function: inlined}, {Function: outer}}}
	parent := &profile.Location{ID: 2, Line: []profile.Line{{Function: outer}}}
	idle := &profile.Location{ID: 3, Line: []profile.Line{{Function: other}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		Sample: []*profile.Sample{
			{Location: []*profile.Location{leaf, parent}, Value: []int64{3, 3e9}},
			{Location: []*profile.Location{parent}, Value: []int64{1, 1e9}},
			{Location: []*profile.Location{idle, parent}, Value: []int64{4, 4e9}},
		},
		Location: []*profile.Location{leaf, parent, idle},
		Function: []*profile.Function{inlined, outer, other, add},
	}
	require.NoError(t, p.CheckValid())
	var out bytes.Buffer
	require.NoError(t, Top(&out, p, 2))
	require.Equal(t, `cpu profile: 8s in weft's samples

    flat   flat%  group     function
   4.00s   50.0%  runtime   runtime.futex
   3.00s   37.5%  deps      weft/deps.pass

    flat   flat%  group
   4.00s   50.0%  runtime
   3.00s   37.5%  deps
   1.00s   12.5%  task
`, out.String())
}

func TestCollectorMergesStretches(t *testing.T) {
	var c Collector
	_, err := c.Profile()
	require.ErrorIs(t, err, ErrEmpty)
	var x int
	burn := func() {
		// the profiler takes a hundred samples a second: spin long enough for several
		for end := time.Now().Add(60 * time.Millisecond); time.Now().Before(end); {
			x++
		}
	}
	for len(c.parts) < 2 {
		c.Around(burn)
		require.NoError(t, c.err)
	}
	p, err := c.Profile()
	require.NoError(t, err)
	_, _, total := flat(p)
	_, _, first := flat(c.parts[0])
	require.Greater(t, total, first)
}
