// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deadlock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// script is a host that finds what a test says, and has the watch look when a test says so.
type script struct {
	w        *Detector
	now      time.Time
	activity int64
	compares bool
	found    *Found
	looks    int
	heard    []string // since the last call of take
}

func newScript(self, processes, warnings int) *script {
	x := &script{now: time.Now(), activity: 1}
	x.w = New(x, self, processes, warnings, time.Second)
	return x
}

func (x *script) Activity() int64 { return x.activity }
func (x *script) Compare() bool   { return x.compares }
func (x *script) Inspect() *Found { x.looks++; return x.found }
func (x *script) Remains()        { x.hear("remains") }
func (x *script) Ask(question uint64) {
	x.hear("ask %d", question)
}
func (x *script) Tell(question uint64, found *Found) {
	switch {
	case found == nil:
		x.hear("%d moves", question)
	case found.Certain:
		x.hear("%d stalls", question)
	default:
		x.hear("%d doubts", question)
	}
}
func (x *script) Warn(n int, waits []string, lasts time.Duration) {
	x.hear("warning %d for %v: %s", n, lasts, strings.Join(waits, ", "))
}
func (x *script) Suspect(waits []string, lasts time.Duration) {
	x.hear("suspicion for %v: %s", lasts, strings.Join(waits, ", "))
}
func (x *script) End(waits []string, lasts time.Duration) {
	x.hear("deadlock for %v: %s", lasts, strings.Join(waits, ", "))
}

func (x *script) hear(format string, args ...any) {
	x.heard = append(x.heard, fmt.Sprintf(format, args...))
}

func (x *script) take() []string {
	heard := x.heard
	x.heard = nil
	return heard
}

// tick is a period later. Questions are answered at once.
func (x *script) tick(after time.Duration) []string {
	x.now = x.now.Add(after)
	x.w.tick(x.now)
	for len(x.w.asks) > 0 {
		x.w.answer(<-x.w.asks)
	}
	return x.take()
}

var (
	sure   = &Found{Certain: true, Waits: []string{"rank 0 waits", "a task waits"}}
	unsure = &Found{Waits: []string{"rank 0 waits", "that may act: x"}}
)

// A deadlock ends the run after as many warnings as there are to be, and says for how long nothing
// has happened. What happens begins all anew, and where others have to compare what they do nobody
// looks. That a function does not return is said once.
func TestDeadlock(t *testing.T) {
	for warnings := range 3 {
		x := newScript(0, 1, warnings)
		x.found = sure
		for turn := range 2 {
			require.Empty(t, x.tick(time.Second), "something has happened")
			for i := range warnings {
				require.Equal(t, []string{fmt.Sprintf("warning %d for %ds: rank 0 waits, a task waits", i+1, i+1)}, x.tick(time.Second))
			}
			require.Equal(t, (turn+1)*warnings, x.looks)
			if turn == 0 {
				x.compares = true
				require.Empty(t, x.tick(time.Second))
				require.Equal(t, warnings, x.looks)
				x.compares = false
				x.activity++
			}
		}
		require.Equal(t, []string{"ask 1", fmt.Sprintf("deadlock for %ds: rank 0 waits, a task waits", warnings+1)}, x.tick(time.Second))
		looks := x.looks
		require.Equal(t, 2*warnings+2, looks, "it was asked once more")
		x.activity++
		require.Equal(t, []string{"remains"}, x.tick(time.Second))
		require.Empty(t, x.tick(time.Second))
		require.Equal(t, looks, x.looks, "it is over")
	}
}

// What happens between two looks is no deadlock.
func TestMovesMeanwhile(t *testing.T) {
	for name, meanwhile := range map[string]func(x *script){
		"something has happened": func(x *script) { x.activity++ },
		"something may go on":    func(x *script) { x.found = nil },
	} {
		x := newScript(0, 1, 0)
		x.found = sure
		x.w.tick(x.now)
		x.w.tick(x.now.Add(time.Second))
		require.Equal(t, []string{"ask 1"}, x.take())
		meanwhile(x)
		x.w.answer(<-x.w.asks)
		require.Empty(t, x.take(), name)
		require.False(t, x.w.reported)
	}
}

// A doubt is said when it has lasted for three looks, once in a run; later looks come later, up to
// a minute. What is no doubt, and what happens, begin it anew.
func TestDoubt(t *testing.T) {
	x := newScript(0, 1, 0)
	require.Empty(t, x.tick(time.Second))
	for range 2 { // it takes three in a row
		x.found = unsure
		require.Empty(t, x.tick(time.Second))
		require.Empty(t, x.tick(time.Second))
		require.Equal(t, 2, x.w.doubtful)
		x.found = nil
		require.Empty(t, x.tick(time.Second))
		require.Zero(t, x.w.doubtful)
	}
	x.found = unsure
	x.tick(time.Second)
	x.tick(time.Second)
	x.activity++
	require.Empty(t, x.tick(time.Second))
	require.Zero(t, x.w.doubtful)
	for i := 1; i < doubtsUntil; i++ {
		require.Empty(t, x.tick(time.Second))
	}
	require.Equal(t, []string{"ask 1", "suspicion for 3s: rank 0 waits, that may act: x"}, x.tick(time.Second))
	require.True(t, x.w.next.IsZero(), "the next look comes as always")
	for i := 1; i <= 8; i++ {
		looks := x.looks
		if i > 1 {
			x.tick(x.w.next.Sub(x.now) - 1)
			require.Equal(t, looks, x.looks, "it is too soon by a moment")
		}
		require.Equal(t, []string{fmt.Sprint("ask ", i+1)}, x.tick(1), "once in a run")
		require.Equal(t, looks+2, x.looks)
		require.Equal(t, time.Second<<min(i, 6), x.w.next.Sub(x.now))
	}
	x.activity++
	x.tick(time.Millisecond)
	require.True(t, x.w.next.IsZero())
	x.found = sure
	require.Contains(t, x.tick(time.Second), "deadlock for 1s: rank 0 waits, a task waits", "what was in doubt is sure")
}

// The first process hears of a stall at each look, of a doubt when it has lasted, and that another
// one moves if it has heard anything of it.
func TestOtherProcess(t *testing.T) {
	x := newScript(1, 3, 0)
	step := func(found *Found, moves bool, want ...string) {
		t.Helper()
		if x.found = found; moves {
			x.activity++
		}
		require.Equal(t, want, x.tick(10*time.Minute))
	}
	step(nil, false)
	step(nil, false)
	step(sure, false, "0 stalls")
	step(sure, false, "0 stalls")
	step(sure, true, "0 moves")
	step(sure, false, "0 stalls")
	step(nil, false, "0 moves")
	step(nil, false)
	step(unsure, false)
	step(unsure, false)
	step(unsure, false, "0 doubts")
	step(unsure, false, "0 doubts")
	step(sure, false, "0 stalls")
	step(nil, false, "0 moves")
	x.w.Asked(1)
	x.w.Asked(2) // the newest one is answered
	step(sure, false, "0 stalls", "2 stalls")
	x.w.Asked(3)
	step(sure, true, "0 moves", "3 stalls")
	x.w.Hear(2, 3, sure)
	require.Empty(t, x.w.news, "it is not the first one")
	require.Empty(t, x.w.some)
}

// The first process asks all when all wait and no frame is under way; when all say the same again
// the run ends, or a doubt is said once.
func TestFirstProcess(t *testing.T) {
	for _, certain := range []bool{true, false} {
		x := newScript(0, 3, 0)
		x.found = &Found{Certain: true, Waits: []string{"0 waits"}, Sent: 5, Here: 3}
		hear := func(process int, question uint64, f *Found) []string {
			t.Helper()
			x.w.Hear(process, question, f)
			require.Len(t, x.w.some, 1)
			<-x.w.some
			x.w.gatherAll()
			return x.take()
		}
		one, two := &Found{Certain: true, Waits: []string{"1 waits"}, Sent: 4, Here: 4}, &Found{Certain: certain, Waits: []string{"2 waits"}, Sent: 2, Here: 4}
		require.Empty(t, x.tick(time.Second))
		require.Empty(t, x.tick(time.Second))
		require.Empty(t, hear(1, 0, one))
		require.Empty(t, hear(2, 0, &Found{Certain: certain, Waits: []string{"2 waits"}, Sent: 2, Here: 3}), "11 sent, 10 taken")
		require.Empty(t, x.w.asks)
		require.Equal(t, []string{"ask 1"}, hear(2, 0, two))
		require.Empty(t, hear(1, 1, one))
		x.w.answer(<-x.w.asks)
		require.Empty(t, x.take())
		if certain {
			require.Equal(t, []string{"deadlock for 1s: 0 waits, 1 waits, 2 waits"}, hear(2, 1, two))
			require.Equal(t, []string{"remains"}, x.tick(time.Second))
			require.Equal(t, []string{"ask 2"}, hear(2, 0, two))
			hear(1, 2, one)
			hear(2, 2, two)
			x.w.answer(<-x.w.asks)
			require.Empty(t, x.take(), "it has ended")
			continue
		}
		require.Equal(t, []string{"suspicion for 1s: 0 waits, 1 waits, 2 waits"}, hear(2, 1, two))
		require.Equal(t, []string{"ask 2"}, hear(2, 0, two), "and all once more")
		x.w.answer(<-x.w.asks)
		require.Empty(t, hear(1, 2, one))
		require.Empty(t, hear(2, 2, two), "once in a run")
		require.Empty(t, hear(1, 0, nil))
		require.Nil(t, x.w.quorum.all[1])
	}
}
