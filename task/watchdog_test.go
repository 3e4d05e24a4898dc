// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/internal/leaktest"
	"weft/task"
)

var bg = context.Background()

// reports is the Writer of a watchdog; tests wait for what it gets.
type reports struct {
	mu   sync.Mutex
	text string
	some chan struct{}
}

func newReports() *reports { return &reports{some: make(chan struct{}, 1)} }

func (r *reports) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text += string(p)
	select {
	case r.some <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (r *reports) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.text
	r.text = ""
	return s
}

// line returns this file's name and the line of the caller plus by, as in a report.
func line(by int) string {
	_, file, n, _ := runtime.Caller(1)
	return fmt.Sprintf("%s:%d", file, n+by)
}

// newWatched opens a runtime with a watchdog, and returns its reports too.
func newWatched(t *testing.T, workers int) (*task.Runtime, *reports) {
	r := newReports()
	rt := task.New(task.Config{Workers: workers, Watchdog: 20 * time.Millisecond, Reports: r})
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	return rt, r
}

// inOrder requires that each of parts is in the text, in this order.
func inOrder(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, p := range parts {
		at := regexp.MustCompile(p).FindStringIndex(rest)
		require.NotNil(t, at, "%q is not in, or not in this order:\n%s", p, text)
		rest = rest[at[1]:]
	}
}

// An event that never ends is reported with its task, the line of the Hold, and the tasks that wait
// for it.
func TestWatchdogForgottenHold(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt, got := newWatched(t, workers)
		var x, y int
		var end func(error)
		var spawned, held string
		require.NoError(t, rt.Run(bg, func(t *task.Task) error {
			spawned = regexp.QuoteMeta(line(1))
			t.SpawnWith(task.Attrs{Label: "forgets"}, func(t *task.Task) error {
				held = regexp.QuoteMeta(line(1))
				end = t.Hold()
				return nil
			}, deps.InOut(&x))
			t.SpawnWith(task.Attrs{Label: "waits"}, func(*task.Task) error { return nil }, deps.In(&x), deps.Out(&y))
			t.SpawnWith(task.Attrs{Label: "waits longer"}, func(*task.Task) error { return nil }, deps.In(&y))
			t.Blocking(func() {
				for !strings.Contains(got.take(), `task "forgets"`) {
					<-got.some
				}
				var b strings.Builder
				_ = rt.Dump(&b)
				got.text = b.String()
			})
			end(nil)
			return nil
		}))
		text := got.take()
		inOrder(t, text, "a task runtime with "+fmt.Sprint(workers)+" slot", "4 live tasks",
			"main task", "waits in Blocking at",
			`task "forgets" \(spawned at `+spawned+`.*\), .* old: its body is over, and it waits for 1 event:\n +a Hold, bound at `+held,
			`task "waits" .*: waits for In\(0x[0-9a-f]+\) after task "forgets" \(spawned at `+spawned,
			`task "waits longer" .*: waits for In\(0x[0-9a-f]+\) after task "waits"`,
			`waited for 20ms or longer for something that no task of the runtime provides`,
			`task "forgets"`, `3 tasks wait for it:|2 tasks wait for it:`)
	}
}

// A cycle of tasks that wait for each other is reported at once, with each step; nothing else is.
func TestWatchdogCycle(t *testing.T) {
	var x, y int
	for _, c := range []struct {
		name  string
		main  func(t *task.Task, both *sync.WaitGroup) error
		steps []string // each followed by the next

		forever bool // the cycle never ends: tasks that wait for objects are not cancelled
	}{
		{"a Mutex and a child", func(t *task.Task, _ *sync.WaitGroup) error {
			var m task.Mutex
			t.SpawnWith(task.Attrs{Label: "holder"}, func(t *task.Task) error {
				if err := m.Lock(t); err != nil {
					return err
				}
				t.SpawnWith(task.Attrs{Label: "child", OnReady: func(*task.Task) error { return nil }}, func(t *task.Task) error { return m.Lock(t) })
				return t.Wait()
			})
			return nil
		}, []string{`task "holder" .* waits in Wait at .*watchdog_test.go:\d+ .*, for task "child"`, `task "child" .* waits in Mutex.Lock at .*watchdog_test.go:\d+ .*, for task "holder"`}, false},
		{"two Mutexes", func(t *task.Task, both *sync.WaitGroup) error {
			var m [2]task.Mutex
			both.Add(2)
			for i := range m {
				t.SpawnWith(task.Attrs{Label: fmt.Sprint("locks ", i)}, func(t *task.Task) error {
					if err := m[i].Lock(t); err != nil {
						return err
					}
					t.Blocking(func() { both.Done(); both.Wait() })
					err := m[1-i].Lock(t)
					m[i].Unlock(t)
					return err
				})
			}
			return nil
		}, []string{`task "locks 0" .* waits in Mutex.Lock .*, for task "locks 1"`, `task "locks 1" .* waits in Mutex.Lock .*, for task "locks 0"`}, false},
		{"objects of nested tasks", func(t *task.Task, both *sync.WaitGroup) error {
			both.Add(2)
			for i, o := range [2][2]*int{{&x, &y}, {&y, &x}} {
				t.SpawnWith(task.Attrs{Label: fmt.Sprint("parent ", i)}, func(t *task.Task) error {
					t.Blocking(func() { both.Done(); both.Wait() })
					t.SpawnWith(task.Attrs{Label: fmt.Sprint("child ", i)}, func(*task.Task) error { return nil }, deps.Commutative(o[1]))
					return t.Wait()
				}, deps.Commutative(o[0]))
			}
			return nil
		}, []string{`task "parent 0" .* waits in Wait .*, for task "child 0"`, `task "child 0" .*: waits for Commutative\(0x[0-9a-f]+\) after task "parent 1"`,
			`task "parent 1" .* waits in Wait .*, for task "child 1"`, `task "child 1" .*: waits for Commutative\(0x[0-9a-f]+\) after task "parent 0"`}, true},
		{"an object of an ancestor, past a parent that does not declare it", func(t *task.Task, _ *sync.WaitGroup) error {
			z := new(int) // not x: it is held for ever
			t.SpawnWith(task.Attrs{Label: "holder"}, func(t *task.Task) error {
				t.SpawnWith(task.Attrs{Label: "parent"}, func(t *task.Task) error {
					t.SpawnWith(task.Attrs{Label: "wants"}, func(*task.Task) error { return nil }, deps.Commutative(z))
					return t.Wait()
				})
				return t.Wait()
			}, deps.Commutative(z))
			return nil
		}, []string{`task "holder" .* waits in Wait .*, for task "parent"`, `task "parent" .* waits in Wait .*, for task "wants"`,
			`task "wants" .*: waits for Commutative\(0x[0-9a-f]+\) after task "holder"`}, true},
		{"runs that join each other", func(t *task.Task, _ *sync.WaitGroup) error {
			one, other := make(chan *task.Detached, 1), make(chan *task.Detached, 1)
			one <- t.Runtime().SpawnWith(t.Context(), task.Attrs{Label: "one"}, func(t *task.Task) error {
				t.SpawnWith(task.Attrs{Label: "joins"}, func(t *task.Task) error {
					var d *task.Detached
					t.Blocking(func() { d = <-other })
					return d.Join(t)
				}, deps.InOut(&y))
				return t.WaitOn(deps.In(&y))
			})
			other <- t.Runtime().SpawnWith(t.Context(), task.Attrs{Label: "other"}, func(t *task.Task) error {
				var d *task.Detached
				t.Blocking(func() { d = <-one })
				return d.Join(t)
			})
			t.SpawnWith(task.Attrs{Label: "keeps the run"}, func(t *task.Task) error { return t.Block() })
			return nil
		}, []string{`task "one" .* waits in an undeferred Spawn at .*, for task "WaitOn"`, `task "WaitOn" .*: waits for In\(0x[0-9a-f]+\) after task "joins"`,
			`task "joins" .* waits in Detached.Join .*, for task "other"`, `task "other" .* waits in Detached.Join .*, for task "one"`}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.forever && !leaktest.Alone(t) {
				return
			}
			got := newReports()
			rt := task.New(task.Config{Workers: 2, Watchdog: time.Hour, Reports: got})
			ctx, cancel := context.WithCancel(bg)
			d := rt.Spawn(ctx, func(t *task.Task) error {
				both := new(sync.WaitGroup)
				return c.main(t, both)
			})
			text := ""
			for !strings.Contains(text, "can never go on") {
				var b strings.Builder
				require.NoError(t, rt.Dump(&b))
				text = b.String()
			}
			_, text, _ = strings.Cut(text, "\n"+fmt.Sprint(len(c.steps)))
			inOrder(t, text, "tasks? waits? for each other and can never go on")
			for _, s := range c.steps {
				inOrder(t, text, s)
			}
			require.Equal(t, len(c.steps), strings.Count(text, "\n")-1, text)
			cancel() // ends the waits of bodies
			if !c.forever {
				_ = d.Wait(bg)
				require.NoError(t, rt.Close())
			}
		})
	}
}

// Tasks that work for long, tasks that wait for these, and tasks that sleep are not stuck. The
// watchdog checks while thousands of tasks of all kinds come and go.
func TestWatchdogHammerHealthy(t *testing.T) {
	got := newReports()
	rt := task.New(task.Config{Workers: 4, Watchdog: time.Minute, Reports: got})
	stop := make(chan struct{})
	var looks sync.WaitGroup
	for range 2 {
		looks.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				list, ok := rt.Tasks()
				if !ok {
					t.Error("no list")
				}
				for _, x := range list {
					if x.Stuck || x.Cycle {
						t.Errorf("accused: %s", x.Text)
					}
				}
			}
		})
	}
	var objs [8]int
	var m task.Mutex
	sum := 0
	for range 6 {
		require.NoError(t, rt.Run(bg, func(t *task.Task) error {
			for i := range 60 {
				a, b := &objs[i%8], &objs[(i*3+1)%8]
				t.SpawnWith(task.Attrs{Label: "outer", Wait: i%5 == 0}, func(t *task.Task) error {
					t.Spawn(func(t *task.Task) error {
						*a++
						return t.Release(deps.InOut(a))
					}, deps.InOut(a))
					t.Spawn(func(*task.Task) error { return nil }, deps.In(a))
					if i%3 == 0 {
						if err := t.Wait(); err != nil {
							return err
						}
					}
					if i%4 == 0 {
						return t.WaitOn(deps.In(a))
					}
					return t.Critical(&m, func() error { sum++; return nil })
				}, deps.InOut(a).Weak(), deps.In(b))
				t.Spawn(func(t *task.Task) error {
					end := t.HoldFor("a goroutine")
					go end(nil)
					return nil
				}, deps.Commutative(b))
				t.Spawn(func(t *task.Task) error {
					return t.Await(func(done func()) { go done() })
				}, deps.Concurrent(a), deps.Concurrent(b))
				if i%20 == 0 {
					t.Iterate(3, func(it *task.Iteration) error {
						it.Spawn(func(t *task.Task) error { return t.Sleep(time.Microsecond) }, deps.InOut(a))
						it.Spawn(func(t *task.Task) error { return nil }, deps.In(a))
						return nil
					}, deps.InOut(a))
				}
			}
			return nil
		}))
	}
	close(stop)
	looks.Wait()
	list, _ := rt.Tasks()
	require.Empty(t, list)
	require.NoError(t, rt.Close())
	require.Empty(t, got.take())
	require.Positive(t, sum)
}

// The states, as the list of tasks gives them.
func TestWatchdogStates(t *testing.T) {
	rt := task.New(task.Config{Workers: 1, Watchdog: time.Hour, Reports: newReports()})
	defer func() { require.NoError(t, rt.Close()) }()
	var x, y int
	var mu sync.Mutex // guards ends: no accesses order the tasks that use it
	ends := map[string]func(error){}
	keep := func(name string, end func(error)) {
		mu.Lock()
		defer mu.Unlock()
		ends[name] = end
	}
	require.NoError(t, rt.Run(bg, func(t *task.Task) error {
		nothing := func(*task.Task) error { return nil }
		t.SpawnWith(task.Attrs{Label: "bound"}, func(t *task.Task) error {
			keep("bound", t.HoldFor("a ship"))
			return nil
		}, deps.InOut(&x))
		t.SpawnWith(task.Attrs{Label: "waiting"}, nothing, deps.In(&x))
		t.SpawnWith(task.Attrs{Label: "weak"}, func(t *task.Task) error {
			t.SpawnWith(task.Attrs{Label: "below"}, nothing, deps.InOut(&x))
			return nil
		}, deps.InOut(&x).Weak())
		t.SpawnWith(task.Attrs{Label: "behind below"}, nothing, deps.In(&x))
		t.SpawnWith(task.Attrs{Label: "held", OnReady: func(t *task.Task) error { keep("held", t.Hold()); return nil }}, nothing, deps.InOut(&y))
		t.SpawnWith(task.Attrs{Label: "blocked"}, func(t *task.Task) error {
			return t.AwaitFor("a train", func(done func()) { keep("blocked", func(error) { done() }) })
		})
		t.Blocking(func() {
			for states := ""; ; {
				list, _ := rt.Tasks()
				states = ""
				for _, i := range list {
					states += fmt.Sprintf("%s=%s ", i.Label, i.State)
				}
				if states == "=blocked bound=bound waiting=waiting weak=parent behind below=waiting held=held blocked=blocked below=waiting " {
					break
				}
				runtime.Gosched()
			}
		})
		list, _ := rt.Tasks()
		if list[0].State != task.TaskRunning {
			return fmt.Errorf("the main task is %s", list[0].State)
		}
		for k, want := range []string{"runs, for", "waits for 1 event:\n  a ship, bound at", `after task "bound"`, "its body is over, and it waits for its descendants (1 child)", `after task "below"`,
			"OnReady has bound 1 event", "for a train", `waits for InOut(`} {
			if !strings.Contains(list[k].Text, want) {
				return fmt.Errorf("%q is not in %s", want, list[k].Text)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for _, end := range ends {
			end(nil)
		}
		return nil
	}))
}

// Without a watchdog there is no list, and Dump says how to get one.
func TestWatchdogOff(t *testing.T) {
	t.Setenv(task.EnvWatchdog, "")
	rt := task.New(task.Config{Workers: 3})
	_, ok := rt.Tasks()
	require.False(t, ok)
	var b strings.Builder
	require.NoError(t, task.DumpAll(&b))
	require.Contains(t, b.String(), "a task runtime with 3 slots")
	require.Contains(t, b.String(), "WEFT_WATCHDOG=10s")
	require.NoError(t, rt.Close())

	for value, want := range map[string]string{"1": "WEFT_WATCHDOG=\"1\"", "-3s": "-3s", "1ns": "1ms to 24h", "x": "a time from"} {
		t.Setenv(task.EnvWatchdog, value)
		_, err := task.Open(task.Config{})
		require.ErrorContains(t, err, want)
	}
	_, err := task.Open(task.Config{Watchdog: 1})
	require.ErrorContains(t, err, "Config.Watchdog is 1ns")
	t.Setenv(task.EnvWatchdog, "1h")
	rt = task.New(task.Config{})
	_, ok = rt.Tasks()
	require.True(t, ok)
	require.NoError(t, rt.Close())
	rt = task.New(task.Config{Watchdog: -1})
	_, ok = rt.Tasks()
	require.False(t, ok)
	require.NoError(t, rt.Close())
}
