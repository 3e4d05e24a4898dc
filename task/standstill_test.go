// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/task"
)

// skipRacesInLintMode skips a test that shares memory by other means than accesses.
func skipRacesInLintMode(t *testing.T) {
	t.Helper()
	if task.InLintMode() {
		t.Skip("not in lint mode: the test shares variables with bodies that no access orders")
	}
}

// blocks runs a runtime whose bodies, one for each slot, all call block, while another task is
// ready. It returns what has been reported by then.
func blocks(t *testing.T, cfg task.Config, got *reports, block func(), free func()) string {
	t.Helper()
	skipRacesInLintMode(t)
	cfg.Reports = got
	rt := task.New(cfg)
	defer func() { require.NoError(t, rt.Close()) }()
	var text string
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for text = got.take(); !strings.Contains(text, "Blocking"); text += got.take() {
			<-got.some
		}
		free()
	}()
	require.NoError(t, rt.Run(bg, func(t *task.Task) error {
		for range cfg.Workers {
			t.SpawnWith(task.Attrs{Label: "reader"}, func(t *task.Task) error {
				// the successor of the last body that blocks does not run
				t.Spawn(func(*task.Task) error { return nil })
				block()
				return nil
			})
		}
		return nil
	}))
	<-heard
	return text
}

// Bodies on all slots that block in a channel are named, with what they block in and what to call
// instead, while tasks are ready.
func TestBlockedSlots(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 2} {
		for name, cfg := range map[string]task.Config{"": {Workers: workers}, "with a watchdog": {Workers: workers, Watchdog: 40 * time.Millisecond}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ch := make(chan int)
				where := line(1)
				text := blocks(t, cfg, newReports(), func() { <-ch }, func() { close(ch) })
				inOrder(t, text, `tasks are ready, and no slot takes them: for .* has been blocked:`,
					`slot 0: task "reader" \(spawned at .*standstill_test\.go:.*\), \[chan receive`, where, `t\.Blocking\(`)
				require.Equal(t, workers, strings.Count(text, "chan receive"), text)
			})
		}
	}
}

// A runtime does not mistake the processor time of another runtime's checks for that of bodies,
// also if checks are expensive because there have been many goroutines.
func TestBlockedSlotsOfManyRuntimes(t *testing.T) {
	gate := make(chan int)
	for range 100_000 {
		go func() { <-gate }()
	}
	close(gate)
	const runtimes = 6
	free := make(chan int)
	var said atomic.Int32
	var all sync.WaitGroup
	for range runtimes {
		all.Go(func() {
			blocks(t, task.Config{Workers: 1, Watchdog: 40 * time.Millisecond}, newReports(), func() { <-free }, func() {
				if said.Add(1) == runtimes {
					close(free)
				}
			})
		})
	}
	all.Wait()
}

// The report has the stack of a body however deep it is: Go leaves out calls in the middle.
func TestBlockedSlotsDeep(t *testing.T) {
	ch := make(chan int)
	var deep func(n int)
	where := line(3)
	deep = func(n int) {
		if n == 0 {
			<-ch
		} else {
			deep(n - 1)
		}
	}
	text := blocks(t, task.Config{Workers: 1, Watchdog: 40 * time.Millisecond}, newReports(), func() { deep(500) }, func() { close(ch) })
	inOrder(t, text, `slot 0: task "reader" .*, \[chan receive`, `TestBlockedSlotsDeep`, where, `t\.Blocking\(`)
}

// If a body blocks in the standard library, the report has the body's own line too.
func TestBlockedSlotsInTheLibrary(t *testing.T) {
	var mu sync.Mutex
	mu.Lock()
	text := blocks(t, task.Config{Workers: 1, Watchdog: 40 * time.Millisecond}, newReports(), func() {
		mu.Lock()
		defer mu.Unlock()
	}, mu.Unlock)
	inOrder(t, text, `slot 0: task "reader" .*, \[sync\.Mutex\.Lock`, `sync\.\(\*Mutex\)\.Lock`, `TestBlockedSlotsInTheLibrary`, `standstill_test\.go`, `blocks\.`, `t\.Blocking\(`)
}

// A Logger gets the report if there is no watchdog.
func TestBlockedSlotsLogged(t *testing.T) {
	t.Parallel()
	got := newReports()
	ch := make(chan int)
	text := blocks(t, task.Config{Workers: 1, Logger: slog.New(slog.NewTextHandler(got, nil))}, got, func() { <-ch }, func() { close(ch) })
	require.Contains(t, text, "level=WARN")
}

// Bodies that compute are never reported, also on a machine that is busy with other programs.
func TestComputingSlots(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	rt := task.New(task.Config{Workers: 2, Watchdog: 4 * time.Millisecond, Reports: &out})
	var stop atomic.Bool
	release := make(chan struct{})
	time.AfterFunc(500*time.Millisecond, func() {
		stop.Store(true)
		close(release)
	})
	require.NoError(t, rt.Run(bg, func(t *task.Task) error {
		t.Spawn(func(*task.Task) error { // one blocks, one computes
			<-release
			return nil
		})
		t.Spawn(func(*task.Task) error {
			for !stop.Load() {
			}
			return nil
		})
		t.Spawn(func(*task.Task) error { return nil })
		return nil
	}))
	require.NoError(t, rt.Close())
	require.Empty(t, out.String())
}

// No timer runs in a runtime whose slots are all parked.
func TestStandstillSleeps(t *testing.T) {
	rt := task.New(task.Config{Workers: 2, Watchdog: -1})
	defer rt.Close()
	release := make(chan struct{})
	over := make(chan error)
	go func() {
		over <- rt.Run(bg, func(t *task.Task) error {
			t.Blocking(func() { <-release })
			return nil
		})
	}()
	for rt.StandstillArmed() {
		runtime.Gosched()
		time.Sleep(time.Millisecond)
	}
	close(release)
	require.NoError(t, <-over)
}

// A failure of a run that cannot end is reported, with label, spawn site and stack.
func TestFailureOfRunThatHangs(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"a panic":  func() error { panic("a bad day") },
		"an error": func() error { return errors.New("a bad day") },
	} {
		got := newReports()
		rt := task.New(task.Config{Workers: 2, Reports: got})
		began, hang := make(chan struct{}), make(chan struct{})
		var text string
		go func() {
			<-got.some
			text = got.take()
			close(hang)
		}()
		err := rt.Run(bg, func(t *task.Task) error {
			t.Spawn(func(t *task.Task) error {
				t.Blocking(func() {
					close(began)
					<-hang
				})
				return nil
			})
			t.SpawnWith(task.Attrs{Label: "fails"}, func(t *task.Task) error {
				t.Blocking(func() { <-began })
				return fail()
			})
			return nil
		})
		require.ErrorContains(t, err, "a bad day")
		inOrder(t, text, `a run has failed but is not over`, `task "fails" \(spawned at .*standstill_test\.go:\d+`, "a bad day")
		require.Equal(t, name == "a panic", strings.Contains(text, "goroutine "), text)
		require.NoError(t, rt.Close())
	}
}

// A run whose context has ended reports what it still waits for, if no body computes. Some
// goroutine is left that might act, so it is no deadlock.
func TestHoldersOfRunThatHangs(t *testing.T) {
	t.Parallel()
	skipRacesInLintMode(t)
	for name, want := range map[string]string{
		"Blocking":                 `task "holds" \(spawned at .*standstill_test\.go:\d+ .*waits in Blocking`,
		"a channel":                `the body on slot \d, of task "holds" \(spawned at .*standstill_test\.go:\d+ .*\), \[chan receive`,
		"an event":                 `events that have not ended \(Hold\)`,
		"Blocking, and one fails":  `task "holds" .*waits in Blocking`,
		"Blocking, and a watchdog": `task "holds" .*waits in Blocking at`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := task.Config{Workers: 2, Reports: newReports()}
			if strings.Contains(name, "watchdog") {
				cfg.Watchdog = time.Minute
			}
			rt := task.New(cfg)
			ctx, cancel := context.WithCancel(bg)
			hang, heard, held := make(chan struct{}), make(chan struct{}), make(chan func(error), 1)
			begun := make(chan struct{}) // a body that has not begun when the run ends is skipped
			text := ""
			go func() {
				defer close(heard)
				got := cfg.Reports.(*reports)
				for ; !strings.Contains(text, "Bodies are not interrupted"); text += got.take() {
					<-got.some
				}
				close(hang)
				if name == "an event" {
					(<-held)(nil)
				}
			}()
			err := rt.Run(ctx, func(t *task.Task) error {
				t.SpawnWith(task.Attrs{Label: "holds"}, func(t *task.Task) error {
					close(begun)
					switch name {
					case "a channel":
						<-hang
					case "an event":
						held <- t.Hold()
					default:
						t.Blocking(func() { <-hang })
					}
					return nil
				})
				t.Blocking(func() { <-begun })
				if strings.Contains(name, "fails") {
					return errors.New("a bad day")
				}
				cancel()
				return t.Wait()
			})
			cancel()
			require.Error(t, err)
			<-heard
			inOrder(t, text, `a run has ended early but is not over \((context canceled|.*a bad day)\)`, want)
			require.NoError(t, rt.Close())
		})
	}
}

// A run that returns its error reports nothing.
func TestFailureOfRunThatEnds(t *testing.T) {
	got := newReports()
	rt := task.New(task.Config{Workers: 2, Reports: got})
	require.Error(t, rt.Run(bg, func(*task.Task) error { return errors.New("a bad day") }))
	require.NoError(t, rt.Close())
	require.Empty(t, got.take())
}

// When a run ends by its context's deadline, the error says which tasks waited for what, and
// matches the deadline and its cause.
func TestDeadlineSaysWhatTasksWaitFor(t *testing.T) {
	mine := errors.New("my patience ends")
	for _, dog := range []time.Duration{-1, time.Hour} {
		rt := task.New(task.Config{Workers: 2, Watchdog: dog})
		ctx, cancel := context.WithTimeoutCause(bg, 50*time.Millisecond, mine)
		var x int
		var inside error
		err := rt.Run(ctx, func(t *task.Task) error {
			t.SpawnWith(task.Attrs{Label: "blocks"}, func(t *task.Task) error {
				inside = t.Block()
				return nil
			}, deps.Out(&x))
			t.SpawnWith(task.Attrs{Label: "waits for it"}, func(*task.Task) error { return nil }, deps.In(&x))
			return t.Wait()
		})
		cancel()
		require.ErrorIs(t, err, mine)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, inside, mine)
		require.NotContains(t, inside.Error(), "waits in")
		text := err.Error()
		inOrder(t, text, "my patience ends")
		require.Regexp(t, `task "blocks" \(spawned at .*waits in Block`, text)
		require.Equal(t, dog > 0, strings.Contains(text, `"waits for it"`), text)
		require.NoError(t, rt.Close())
	}
}
