// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/observe"
	"weft/task"
)

// observed runs a program with an observer, and returns the observer when the program is over.
func observed(t *testing.T, cfg observe.Config, workers int, main func(*task.Task) error) (*observe.Observer, error) {
	t.Helper()
	o, err := observe.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	rt := task.New(task.Config{Workers: workers, TraceSpawns: true, Trace: o.Recorder()})
	err = rt.Run(t.Context(), main)
	require.NoError(t, rt.Close())
	return o, err
}

// A task of each kind of life is counted once, under its label, and no task stays live.
func TestStatsCountsEverything(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		x, y := new(int), new(int)
		o, err := observed(t, observe.Config{Graph: 1000}, workers, func(t *task.Task) error {
			for range 20 {
				t.SpawnWith(task.Attrs{Label: "chain"}, func(*task.Task) error { *x++; return nil }, deps.InOut(x))
			}
			for range 10 {
				t.SpawnWith(task.Attrs{Label: "bound"}, func(t *task.Task) error {
					done := t.Hold()
					go done(nil)
					return nil
				}, deps.In(x))
				t.SpawnWith(task.Attrs{Label: "bound at once"}, func(t *task.Task) error {
					t.Hold()(nil)
					return nil
				})
			}
			for range 10 {
				t.SpawnWith(task.Attrs{Label: "blocks"}, func(t *task.Task) error { return t.Await(func(done func()) { go done() }) })
			}
			for range 5 {
				t.SpawnWith(task.Attrs{Label: "undeferred", Undeferred: true}, func(*task.Task) error { return nil }, deps.InOut(x))
			}
			for range 5 {
				t.SpawnWith(task.Attrs{Label: "outer", Wait: true}, func(t *task.Task) error {
					for range 4 {
						t.SpawnWith(task.Attrs{Label: "inner", Priority: 1}, func(*task.Task) error { return nil }, deps.InOut(y))
					}
					return nil
				}, deps.InOut(y))
			}
			for range 5 {
				t.SpawnWith(task.Attrs{Label: "onready", OnReady: func(t *task.Task) error {
					done := t.Hold()
					go done(nil)
					return nil
				}}, func(*task.Task) error { return nil })
			}
			for range 4 {
				t.SpawnWith(task.Attrs{Label: "waits"}, func(t *task.Task) error {
					for range 8 {
						t.SpawnWith(task.Attrs{Label: "leaf"}, func(*task.Task) error { return nil })
					}
					return t.Wait()
				})
			}
			return t.WaitOn(deps.InOut(x))
		})
		require.NoError(t, err)
		s := o.Stats()
		require.Empty(t, s.Notes)
		for label, n := range map[string]int64{"chain": 20, "bound": 10, "bound at once": 10, "blocks": 10, "undeferred": 5, "outer": 5, "inner": 20, "onready": 5, "waits": 4, "leaf": 32} {
			l := s.Label(label)
			require.NotNil(t, l, label)
			require.Equal(t, n, l.Tasks, label)
			require.Equal(t, n, l.Run.Count, label)
			require.LessOrEqual(t, l.Run.Min, l.Run.P50, label)
			require.LessOrEqual(t, l.Run.P50, l.Run.Max, label)
			require.Contains(t, l.Site, "observe_test.go:", label)
		}
		require.Nil(t, s.Label("nobody"))
		require.LessOrEqual(t, s.Label("bound").Comm.Count, int64(10))
		require.Zero(t, s.Label("chain").Comm.Count)
		state := liveState(t, o)
		require.Equal(t, map[string]any{"waiting": 0.0, "ready": 0.0, "running": 0.0, "blocked": 0.0, "bound": 0.0, "over": state["tasks"].(map[string]any)["over"]}, state["tasks"])
	}
}

func liveState(t *testing.T, o *observe.Observer) map[string]any {
	t.Helper()
	w := httptest.NewRecorder()
	o.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/state.json", nil))
	require.Equal(t, http.StatusOK, w.Code)
	var m map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &m))
	return m
}

// Tasks of a run that fails are counted as failed and as skipped.
func TestFailedAndSkipped(t *testing.T) {
	x := new(int)
	o, err := observed(t, observe.Config{}, 2, func(t *task.Task) error {
		t.SpawnWith(task.Attrs{Label: "bad"}, func(*task.Task) error { return errors.New("no") }, deps.InOut(x))
		for range 9 {
			t.SpawnWith(task.Attrs{Label: "after"}, func(*task.Task) error { return nil }, deps.InOut(x))
		}
		return nil
	})
	require.ErrorContains(t, err, "no")
	s := o.Stats()
	require.Equal(t, int64(1), s.Label("bad").Failed)
	require.Equal(t, int64(9), s.Label("after").Skipped)
	require.Zero(t, s.Label("after").Run.Count)
	require.Contains(t, s.String(), "after: 0 failed, 9 skipped.")
}

// A task's times are separate: waiting for accesses, waiting for a slot, running, blocked and
// bound. The program makes each of them last for a time that it measures itself.
func TestTimesAreApart(t *testing.T) {
	x := new(int)
	o, err := observed(t, observe.Config{}, 1, func(t *task.Task) error {
		gate := make(chan struct{})
		t.SpawnWith(task.Attrs{Label: "first"}, func(t *task.Task) error {
			t.Blocking(func() { <-gate })
			return nil
		}, deps.InOut(x))
		t.SpawnWith(task.Attrs{Label: "second"}, func(t *task.Task) error {
			done := t.Hold()
			go done(nil)
			return nil
		}, deps.InOut(x))
		t.SpawnWith(task.Attrs{Label: "third"}, func(t *task.Task) error { close(gate); return nil })
		return nil
	})
	require.NoError(t, err)
	s := o.Stats()
	first, second := s.Label("first"), s.Label("second")
	require.Equal(t, int64(1), first.Blocked.Count)
	require.Positive(t, first.Blocked.Sum)
	require.GreaterOrEqual(t, second.Deps.Sum, first.Blocked.Sum, "the second waits while the first is blocked")
	require.Zero(t, second.Blocked.Count)
	require.Zero(t, s.Label("third").Comm.Count)
}

// The run time of a body excludes bodies that run on top while it waits: the sum of all run times
// is at most the time of the slots.
func TestRunTimeIsCountedOnce(t *testing.T) {
	var fib func(t *task.Task, n int, out *int) error
	fib = func(t *task.Task, n int, out *int) error {
		if n < 2 {
			*out = n
			return nil
		}
		var a, b int
		t.SpawnWith(task.Attrs{Label: "fib"}, func(t *task.Task) error { return fib(t, n-1, &a) })
		t.SpawnWith(task.Attrs{Label: "fib"}, func(t *task.Task) error { return fib(t, n-2, &b) })
		err := t.Wait()
		*out = a + b
		return err
	}
	for _, workers := range []int{1, 3} {
		var f int
		o, err := observed(t, observe.Config{Graph: 10_000}, workers, func(t *task.Task) error { return fib(t, 10, &f) })
		require.NoError(t, err)
		require.Equal(t, 55, f)
		s := o.Stats()
		var sum int64
		for _, l := range s.Labels {
			sum += int64(l.Run.Sum)
		}
		require.LessOrEqual(t, sum, int64(workers)*int64(s.Watched))
		g := o.Graph()
		require.Equal(t, 177, g.Tasks())
		require.LessOrEqual(t, g.Span(), g.Work())
	}
}

// The tool says which spawn has the tasks that are bound for longest.
func TestProfileByTheTool(t *testing.T) {
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command")
	}
	if testing.Short() {
		t.Skip("runs go tool pprof")
	}
	o, err := observed(t, observe.Config{}, 2, func(t *task.Task) error {
		gate := make(chan struct{})
		for range 3 {
			t.SpawnWith(task.Attrs{Label: "slow message"}, func(t *task.Task) error {
				done := t.Hold()
				go func() { <-gate; done(nil) }()
				return nil
			})
		}
		x := new(int)
		for range 50 {
			t.SpawnWith(task.Attrs{Label: "compute"}, func(*task.Task) error { *x++; return nil }, deps.InOut(x))
		}
		t.SpawnWith(task.Attrs{Label: "last"}, func(*task.Task) error { close(gate); return nil }, deps.In(x))
		return nil
	})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "tasks.pb.gz")
	f, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, o.WriteProfile(f))
	require.NoError(t, f.Close())
	top := func(value string) string {
		var errs strings.Builder
		cmd := exec.Command(tool, "tool", "pprof", "-top", "-sample_index="+value, file)
		cmd.Stderr = &errs
		out, err := cmd.Output()
		require.NoError(t, err, errs.String())
		return string(out)
	}
	comm := top("comm")
	require.Contains(t, comm, "Type: comm")
	lines := strings.Split(comm, "\n")
	first := 0
	for !strings.Contains(lines[first], "flat%") {
		first++
	}
	require.Contains(t, lines[first+1], "task slow message")
	require.NotContains(t, comm, "task compute", "it is bound to nothing")
	require.Contains(t, comm, "TestProfileByTheTool", "the stack of the spawn")
	require.Contains(t, top("tasks"), "task compute")
	require.Contains(t, top("deps"), "task compute")
}

// The values of the profile are those of the statistics.
func TestProfileAgreesWithStats(t *testing.T) {
	x := new(int)
	o, err := observed(t, observe.Config{}, 2, func(t *task.Task) error {
		for i := range 100 {
			t.SpawnWith(task.Attrs{Label: fmt.Sprint("l", i%3)}, func(*task.Task) error { *x++; return nil }, deps.InOut(x))
		}
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, o.Close()) // the rate of the clock is fixed from here on
	var b bytes.Buffer
	require.NoError(t, o.WriteProfile(&b))
	p, err := profile.Parse(&b)
	require.NoError(t, err)
	require.Equal(t, "run", p.DefaultSampleType)
	var names []string
	for _, v := range p.SampleType {
		names = append(names, v.Type+"/"+v.Unit)
	}
	require.Equal(t, []string{"tasks/count", "run/nanoseconds", "deps/nanoseconds", "ready/nanoseconds", "blocked/nanoseconds", "comm/nanoseconds"}, names)
	sums := map[string][]int64{}
	for _, s := range p.Sample {
		l := s.Label["task"][0]
		if sums[l] == nil {
			sums[l] = make([]int64, len(names))
		}
		for i, v := range s.Value {
			sums[l][i] += v
		}
	}
	for _, l := range o.Stats().Labels {
		require.Equal(t, []int64{l.Tasks, int64(l.Run.Sum), int64(l.Deps.Sum), int64(l.Ready.Sum), int64(l.Blocked.Sum), int64(l.Comm.Sum)}, sums[l.Label])
	}
}

// The span of a chain is its work. Independent tasks have their full parallelism. The path names
// the tasks on it.
func TestGraph(t *testing.T) {
	x := new(int)
	work := func(*task.Task) error {
		for range 2000 {
			*x++
		}
		return nil
	}
	o, err := observed(t, observe.Config{Graph: 1000}, 2, func(t *task.Task) error {
		for range 50 {
			t.SpawnWith(task.Attrs{Label: "link"}, work, deps.InOut(x))
		}
		return nil
	})
	require.NoError(t, err)
	g := o.Graph()
	require.Equal(t, 51, g.Tasks())
	require.Empty(t, g.Notes())
	links := 0 // the last links; their number depends on how quickly main has spawned them
	for _, s := range g.CriticalPath() {
		if s.Label == "link" {
			links++
			require.Contains(t, s.Site, "observe_test.go:")
		}
	}
	if links == 0 { // main got no processor for longer than all links take
		require.Len(t, g.CriticalPath(), 1)
		require.Equal(t, g.Span(), g.CriticalPath()[0].Share)
	}
	require.GreaterOrEqual(t, g.Span(), o.Stats().Label("link").Run.Sum)

	var svg, dot bytes.Buffer
	require.NoError(t, g.WriteSVG(&svg, observe.GraphOptions{Title: "chain"}))
	require.NoError(t, g.WriteDOT(&dot, observe.GraphOptions{}))
	order := 0
	for line := range strings.Lines(dot.String()) {
		if strings.Contains(line, "->") && !strings.Contains(line, "dotted") {
			order++
		}
	}
	require.Equal(t, 49, order, "a chain")
}

// The notes of a graph say that tasks are left out.
func TestGraphIsCut(t *testing.T) {
	o, err := observed(t, observe.Config{Graph: 10}, 2, func(t *task.Task) error {
		for range 30 {
			t.Spawn(func(*task.Task) error { return nil })
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 10, o.Graph().Tasks())
	require.Equal(t, []string{"Only the first 10 tasks were kept; 21 more are left out."}, o.Graph().Notes())
	var b bytes.Buffer
	require.NoError(t, o.Graph().WriteSVG(&b, observe.GraphOptions{}))
	require.Contains(t, b.String(), "Only the first 10 tasks were kept")
}

// While tasks run, any goroutine may request everything.
func TestHammerAsking(t *testing.T) {
	o, err := observe.New(observe.Config{Graph: 100, Ring: 1 << 10})
	require.NoError(t, err)
	rt := task.New(task.Config{Workers: 2, Trace: o.Recorder()})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	h := o.Handler()
	for _, p := range []string{"/", "/state.json", "/stats.txt", "/profile.pb.gz", "/graph.svg", "/graph.dot"} {
		wg.Go(func() {
			for ctx.Err() == nil {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+p, nil))
				if w.Code != http.StatusOK {
					t.Errorf("%s: %d %s", p, w.Code, w.Body)
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 1))
	cells := make([]int, 64)
	var m sync.Mutex
	const rounds = 4
	for range rounds {
		require.NoError(t, rt.Run(t.Context(), func(t *task.Task) error {
			for range 400 {
				a, b := rng.IntN(64), rng.IntN(64)
				t.SpawnWith(task.Attrs{Label: fmt.Sprint("to ", a%5)}, func(t *task.Task) error {
					m.Lock()
					defer m.Unlock()
					cells[a] += cells[b]
					if a%7 == 0 {
						done := t.Hold()
						go done(nil)
					}
					return nil
				}, deps.InOut(&cells[a]), deps.In(&cells[b]))
			}
			return nil
		}))
	}
	cancel()
	wg.Wait()
	require.NoError(t, rt.Close())
	require.NoError(t, o.Close())
	require.NoError(t, o.Close())
	s := o.Stats()
	var n int64
	for _, l := range s.Labels {
		n += l.Tasks
	}
	if !strings.Contains(strings.Join(s.Notes, " "), "lost") {
		require.Equal(t, int64(rounds*401), n)
	} else {
		require.Less(t, n, int64(rounds*401), s.Notes)
	}
}

func TestHandler(t *testing.T) {
	o, err := observed(t, observe.Config{}, 1, func(t *task.Task) error {
		t.SpawnWith(task.Attrs{Label: "<b>&"}, func(*task.Task) error { return nil })
		return nil
	})
	require.NoError(t, err)
	s := httptest.NewServer(http.StripPrefix("/tasks", o.Handler()))
	defer s.Close()
	get := func(path string) (int, string, http.Header) {
		r, err := http.Get(s.URL + path)
		require.NoError(t, err)
		defer func() { _ = r.Body.Close() }()
		b, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		return r.StatusCode, string(b), r.Header
	}
	code, body, head := get("/tasks/")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, head.Get("Content-Type"), "text/html")
	body = strings.ReplaceAll(body, `"http://www.w3.org/2000/svg"`, "") // a name
	require.False(t, strings.Contains(body, "http://") || strings.Contains(body, "https://"), "something is loaded from another server")
	code, body, _ = get("/tasks/stats.txt")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "<b>&")
	code, body, _ = get("/tasks/graph.svg")
	require.Equal(t, http.StatusNotFound, code)
	require.Contains(t, body, "observe.Config.Graph")
	code, _, _ = get("/tasks/other")
	require.Equal(t, http.StatusNotFound, code)
	r, err := http.Post(s.URL+"/tasks/state.json", "", nil)
	require.NoError(t, err)
	_ = r.Body.Close()
	require.Equal(t, http.StatusMethodNotAllowed, r.StatusCode)
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  observe.Config
		text string
	}{
		{observe.Config{Graph: -1}, "observe: Config.Graph is -1; legal are 0 to 16777216 tasks"},
		{observe.Config{Ring: 100}, "observe: event: a ring of 100 records; legal are powers of two"},
	} {
		_, err := observe.New(c.cfg)
		require.ErrorContains(t, err, c.text)
	}
}

// With sampling, the numbers of tasks are exact, and the times are estimates for all tasks.
func TestSample(t *testing.T) {
	x := new(int)
	o, err := observed(t, observe.Config{Sample: 16}, 2, func(t *task.Task) error {
		for i := range 20_000 {
			label := "one"
			if i%4 == 0 {
				label = "two"
			}
			t.SpawnWith(task.Attrs{Label: label}, func(*task.Task) error { *x++; return nil }, deps.InOut(x))
		}
		return nil
	})
	require.NoError(t, err)
	s := o.Stats()
	require.Equal(t, []string{"One task in 16 was observed, chosen at random: numbers of tasks are exact, times are those of the observed tasks, multiplied."}, s.Notes)
	one, two := s.Label("one"), s.Label("two")
	require.Equal(t, int64(15_000), one.Tasks)
	require.Equal(t, int64(5_000), two.Tasks)
	require.Equal(t, int64(15_000), one.Run.Count)
	require.Len(t, s.Labels, 3)
	for _, l := range s.Labels {
		if l.Label != "one" && l.Label != "two" {
			require.Equal(t, int64(1), l.Tasks, "the main task stands for itself")
		}
	}
	_, err = observe.New(observe.Config{Sample: 2, Graph: 1})
	require.EqualError(t, err, "observe: Config.Sample is 2 and Config.Graph 1: a graph needs all tasks")
}

// Sampled tasks of each kind of life: none stays live, whichever tasks are observed.
func TestHammerSampled(t *testing.T) {
	for range 20 {
		x := new(int)
		o, err := observed(t, observe.Config{Sample: 3}, 4, func(t *task.Task) error {
			for i := range 60 {
				t.SpawnWith(task.Attrs{Label: "a", Wait: i%3 == 0, Undeferred: i%7 == 0, Priority: i % 2}, func(t *task.Task) error {
					for range 3 {
						t.SpawnWith(task.Attrs{Label: "b"}, func(t *task.Task) error {
							done := t.Hold()
							go done(nil)
							return t.Await(func(done func()) { go done() })
						})
					}
					if i%2 == 0 {
						return t.Wait()
					}
					return nil
				}, deps.InOut(x))
			}
			return nil
		})
		require.NoError(t, err)
		s := o.Stats()
		require.Equal(t, int64(60), s.Label("a").Tasks)
		require.Equal(t, int64(180), s.Label("b").Tasks)
		require.Len(t, s.Notes, 1)
		for what, n := range liveState(t, o)["tasks"].(map[string]any) {
			require.True(t, what == "over" || n == 0.0, "%v %s", n, what)
		}
	}
}

// With the default sampling, numbers are exact, however many tasks are observed.
func TestSampleByDefault(t *testing.T) {
	x := new(int)
	o, err := observed(t, observe.Config{}, 2, func(t *task.Task) error {
		for range 40_000 {
			t.SpawnWith(task.Attrs{Label: "link"}, func(*task.Task) error { *x++; return nil }, deps.InOut(x))
		}
		return nil
	})
	require.NoError(t, err)
	l := o.Stats().Label("link")
	require.Equal(t, int64(40_000), l.Tasks)
	require.InDelta(t, 40_000, l.Run.Count, 40, "each bin is rounded")
	for what, n := range liveState(t, o)["tasks"].(map[string]any) {
		require.True(t, what == "over" || n == 0.0, "%v %s", n, what)
	}
	_, err = observe.New(observe.Config{Sample: -1})
	require.EqualError(t, err, "observe: Config.Sample is -1; legal are 1 for all tasks, one of up to 1048576, and 0 for as many as cost little")
	_, err = observe.New(observe.Config{Sample: 1<<20 + 1})
	require.EqualError(t, err, "observe: Config.Sample is 1048577; legal are 1 for all tasks, one of up to 1048576, and 0 for as many as cost little")
	file := filepath.Join(t.TempDir(), "x.weft")
	_, err = observe.New(observe.Config{Ring: 3, File: file})
	require.ErrorContains(t, err, "a ring of 3 records")
	require.NoFileExists(t, file)
}
