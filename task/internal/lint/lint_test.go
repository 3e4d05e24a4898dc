// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
	"weft/internal/order"
	"weft/internal/race"
)

// These parts of lint mode work in any build.

func TestRace(t *testing.T) {
	for value, want := range map[string]string{
		"":                             "history_size=7",
		"halt_on_error=1":              "halt_on_error=1 history_size=7",
		"history_size=0":               "history_size=0",
		"a=b history_size=12 c=d":      "a=b history_size=12 c=d",
		"my_history_size=1":            "my_history_size=1 history_size=7",
		"history_size=x":               "history_size=x history_size=7",
		"history_size= halt_on_error=": "history_size= halt_on_error= history_size=7",
	} {
		require.Equal(t, want, race.History(value))
	}
}

// Say reports its limits once, to the logger if there is one.
func TestSayLimit(t *testing.T) {
	defer func() { sayOnce = sync.Once{} }()
	for value, accesses := range map[string]int{"": 30_000, "history_size=0": 30_000, "history_size=3": 90_000, "exitcode=2 history_size=7": 160_000} {
		t.Setenv(race.EnvRace, value)
		for _, logs := range []bool{false, true} {
			var reports, log bytes.Buffer
			var logger *slog.Logger
			if logs {
				logger = slog.New(slog.NewTextHandler(&log, nil))
			}
			sayOnce = sync.Once{}
			Say(logger, &reports)
			said, other := reports.String(), log.String()
			if logs {
				said, other = other, said
			}
			require.Contains(t, said, fmt.Sprintf("more than about %d others, or more than about 250 bodies", accesses))
			require.Contains(t, said, "lint mode")
			require.Empty(t, other)
			Say(logger, &reports)
			require.Equal(t, logs, reports.Len() == 0)
			require.Equal(t, len(said), reports.Len()+log.Len(), "reported twice")
		}
	}
}

// The goroutines of the last bodies stay, and no others. Close ends the goroutines of its own
// runtime.
func TestKeepsTheLastBodies(t *testing.T) {
	if race.Lint {
		t.Skip("not in lint mode: goroutines of other tests stay")
	}
	base := runtime.NumGoroutine()
	mine, other := New(true), New(true)
	var ended [2]atomic.Int32
	var last atomic.Int32 // the newest of mine that has ended
	stays := func(k int, l *Lint, number int32) {
		stayed.mu.Lock()
		was := stayed.next
		stayed.mu.Unlock()
		go func() {
			l.keep()
			if k == 0 {
				// in their order
				until(func() bool { return last.CompareAndSwap(number-1, number) })
			}
			ended[k].Add(1)
		}()
		until(func() bool {
			stayed.mu.Lock()
			defer stayed.mu.Unlock()
			return stayed.next != was
		})
	}
	for i := range kept {
		stays(0, mine, int32(i+1))
	}
	require.Zero(t, ended[0].Load())
	for i := range 10 {
		stays(1, other, 0)
		until(func() bool { return int(ended[0].Load()) == i+1 }) // the oldest makes room
	}
	require.Zero(t, ended[1].Load())
	other.Close()
	until(func() bool { return ended[1].Load() == 10 })
	require.EqualValues(t, 10, ended[0].Load())
	other.keep() // returns at once
	require.EqualValues(t, 10, ended[0].Load())
	mine.Close()
	until(func() bool { return ended[0].Load() == kept })
	mine.Close()
	for _, b := range stayed.ring {
		require.Nil(t, b.l)
	}
	settled(t, base)
}

// Apart runs a function on another goroutine, and the caller continues as after an ordinary call.
func TestApart(t *testing.T) {
	if race.Lint {
		t.Skip("not in lint mode: goroutines of other tests stay")
	}
	base := runtime.NumGoroutine()
	for _, how := range []string{"returns", "panics", "Goexit"} {
		l := New(true)
		var apart, caller string
		var backs []bool
		var value any
		went := false
		done := make(chan bool)
		go func() {
			defer close(done)
			defer func() { value = recover() }()
			caller = goroutine()
			l.Apart(func() {
				apart = goroutine()
				switch how {
				case "panics":
					panic("apart")
				case "Goexit":
					runtime.Goexit()
				}
			}, func(returned bool) {
				backs = append(backs, returned)
				if goroutine() != caller {
					backs = nil
				}
			})
			went = true
		}()
		<-done
		l.Close()
		require.Equal(t, []bool{how == "returns"}, backs, how)
		require.Equal(t, how == "returns", went, how)
		require.Equal(t, how == "panics", value == "apart", how)
		require.NotEqual(t, caller, apart, how)
		settled(t, base)
	}
}

// If lint mode is off in a build for it, all tasks have one record; else each has its own, with the
// accesses that it declares. A task of a recorded loop has no accesses in the tree.
func TestNew(t *testing.T) {
	x, y := 0, make([]int, 4)
	accs := []chain.Access{chain.Object(&x, chain.ModeIn), chain.Object(&x, chain.ModeInOut), chain.Slice(y[1:3]).Access(chain.ModeOut).Weak(), chain.Slice(y[:0]).Access(chain.ModeIn), {}}
	for _, on := range []bool{true, false} {
		l := New(on)
		main := l.Enter(nil, nil, false, false)
		for _, flag := range []bool{true, false} {
			r := l.Enter(main, accs, flag, flag)
			require.Equal(t, on, !r.off())
			require.Equal(t, !on, r == l.off)
			if !on {
				require.Nil(t, r.task)
				continue
			}
			require.Same(t, l, r.l)
			require.Same(t, main, r.parent)
			require.Equal(t, []bool{flag, flag}, []bool{r.wait, r.loop})
			if flag {
				require.Empty(t, r.task.Entries)
				continue
			}
			require.Len(t, r.task.Entries, 2)
			for i, a := range []order.Access{order.Of(accs[1]), order.Of(accs[2])} {
				u := r.task.Entries[i]
				require.Equal(t, []any{a.Lo, a.Hi, a.Weak}, []any{u.Lo, u.Hi, u.Weak})
				require.NotNil(t, clockOf(u))
			}
		}
	}
}

// All goroutines share the trees: a caller that forgets a task waits for the trees' lock.
func TestForgetsAlone(t *testing.T) {
	for name, forgets := range map[string]func(*Record){"waited": (*Record).Waited, "over": (*Record).Over} {
		l := new(Lint)
		r := l.Enter(l.Enter(nil, nil, false, false), nil, false, false)
		l.lock()
		over := make(chan struct{})
		go func() {
			defer close(over)
			forgets(r)
		}()
		for range 1000 {
			runtime.Gosched()
			select {
			case <-over:
				require.Fail(t, "did not wait for the lock", name)
			default:
			}
		}
		l.unlock()
		<-over
	}
}

// goroutine returns the name of the calling goroutine.
func goroutine() string {
	var b [64]byte
	name, _, _ := strings.Cut(string(b[:runtime.Stack(b[:], false)]), " [")
	return name
}

// until returns when cond holds.
func until(cond func() bool) {
	for !cond() {
		time.Sleep(10 * time.Microsecond)
	}
}

// settled waits until there are no more goroutines than before.
func settled(t *testing.T, before int) {
	t.Helper()
	// the condition has a goroutine
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 20*time.Second, time.Millisecond)
}
