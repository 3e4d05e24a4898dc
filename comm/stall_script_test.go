// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/waits"
)

// stallScript has stalls look when a test says so, and find what it says.
type stallScript struct {
	s     *stalls
	c     *Comm
	now   time.Time
	found *stall
	looks int
	told  []string // what was reported
}

func newStallScript(t *testing.T, cfg Config, report bool) *stallScript {
	_, c := amongNeighbours(t, 0, cfg)
	c.world.late.begin(c.world)
	t.Cleanup(c.world.late.end)
	x := &stallScript{c: c, now: time.Now(), s: &stalls{w: c.world}}
	x.s.find = func() *stall { x.looks++; return x.found }
	if report {
		x.s.report = func(found *stall) {
			switch {
			case found == nil:
				x.told = append(x.told, "moves")
			case found.certain:
				x.told = append(x.told, "stalls")
			default:
				x.told = append(x.told, "doubt")
			}
		}
	}
	return x
}

// tick is a look after a time.
func (x *stallScript) tick(after time.Duration) {
	x.now = x.now.Add(after)
	x.s.tick(x.now)
}

// moves has something happen to the rank.
func (x *stallScript) moves() { x.c.Irecv(Buffer{}, 1, 1) }

var (
	sure    = &stall{certain: true, waits: []string{"rank 0 waits", "a task waits"}}
	unsure  = &stall{census: waits.Census{All: 3, Asleep: 2}, waits: []string{"rank 0 waits"}}
	working = &stall{census: waits.Census{All: 2, Asleep: 2}, waits: []string{"rank 0 waits"}} // not sure, and nobody else may act
)

// A deadlock ends the run after as many warnings as there are to be, and says for how long nothing
// has happened. What happens begins all anew. That a function does not return is said once.
func TestStallEndsTheRun(t *testing.T) {
	for warnings := range 3 {
		for _, logs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d warnings, log %v", warnings, logs), func(t *testing.T) {
				var log, out bytes.Buffer
				defer func(w io.Writer) { stderr = w }(stderr)
				stderr = &out
				cfg := Config{DeadlockWarnings: warnings}
				if logs {
					cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
				}
				x := newStallScript(t, cfg, false)
				x.found = sure
				for turn := range 2 {
					x.tick(time.Second) // sees that something has happened
					require.Equal(t, turn*warnings, x.looks)
					for range warnings {
						x.tick(time.Second)
						require.Nil(t, x.c.world.aborted.Load())
					}
					require.Equal(t, (turn+1)*warnings, x.looks)
					if turn == 0 {
						x.moves()
					}
				}
				if logs {
					require.Equal(t, 2*warnings, strings.Count(log.String(), "level=WARN"), log.String())
					for i := range warnings {
						require.Equal(t, 2, strings.Count(log.String(), fmt.Sprintf("warning=%d of=%d", i+1, warnings)), log.String())
					}
				}
				x.tick(time.Second)
				cause := x.c.world.aborted.Load().cause
				require.Equal(t, &DeadlockError{Ranks: sure.waits, For: time.Duration(warnings+1) * time.Second}, cause)
				require.Equal(t, fmt.Sprintf("deadlock: all ranks wait, and nothing is under way for %ds:\nrank 0 waits\na task waits", warnings+1), cause.Error())
				require.Empty(t, out.String())
				looks := x.looks
				x.moves()
				for range 3 {
					x.tick(time.Second)
				}
				require.Equal(t, looks, x.looks, "it is over")
				require.Equal(t, btoi(!logs), strings.Count(out.String(), "The run is ended, but some ranks do not return.\n"))
				if !logs {
					require.Equal(t, fmt.Sprintf("weft: %v\nThe run is ended, but some ranks do not return.\n", cause), out.String())
				}
			})
		}
	}
}

// A doubt is said when it has lasted for three looks, once in a run; later looks come later, up to
// a minute. What is no doubt, and what happens, begin it anew.
func TestStallDoubtScript(t *testing.T) {
	for _, logs := range []bool{false, true} {
		var log, out bytes.Buffer
		defer func(w io.Writer) { stderr = w }(stderr)
		stderr = &out
		var cfg Config
		if logs {
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		}
		x := newStallScript(t, cfg, false)
		said := func() int {
			return strings.Count(log.String()+out.String(), "a deadlock, unless a goroutine of the program acts")
		}
		x.tick(time.Second)
		for _, between := range []*stall{nil, working} { // it takes three in a row
			x.found = unsure
			x.tick(time.Second)
			x.tick(time.Second)
			require.Equal(t, 2, x.s.doubtful)
			x.found = between
			x.tick(time.Second)
			require.Zero(t, x.s.doubtful)
		}
		x.found = unsure
		x.tick(time.Second)
		x.tick(time.Second)
		x.moves()
		x.tick(time.Second)
		require.Zero(t, x.s.doubtful)
		require.Zero(t, said())
		for i := 1; i <= doubtsUntil; i++ {
			x.tick(time.Second)
			require.Equal(t, btoi(i == doubtsUntil), said())
			require.True(t, x.s.next.IsZero(), "the next look comes as always")
		}
		if logs {
			require.Contains(t, log.String(), "level=WARN")
			require.Contains(t, log.String(), "for=3s ranks=\"rank 0 waits\"")
		} else {
			require.True(t, strings.HasPrefix(out.String(), "weft: for 3s all ranks wait, and nothing is under way: a deadlock, unless a goroutine of the program acts:\nrank 0 waits\n"), out.String())
		}
		for i := 1; i <= 8; i++ {
			looks := x.looks
			x.tick(0)
			if i > 1 {
				require.Equal(t, looks, x.looks, "it is too soon")
				x.tick(x.s.next.Sub(x.now) - 1)
				require.Equal(t, looks, x.looks, "it is too soon by a moment")
				x.tick(1)
			}
			require.Equal(t, looks+1, x.looks)
			require.Equal(t, time.Second<<min(i, 6), x.s.next.Sub(x.now))
		}
		require.Equal(t, 1, said())
		x.moves()
		x.tick(time.Millisecond)
		require.True(t, x.s.next.IsZero())
		for range 5 {
			x.tick(10 * time.Minute)
		}
		require.Equal(t, 1, said(), "once in a run")
		require.Nil(t, x.c.world.aborted.Load())
	}
	var out bytes.Buffer
	stderr = &out
	x := newStallScript(t, Config{}, false)
	x.s.say([]string{"rank 0 waits"}, nil, time.Second)
	require.Equal(t, "weft: for 1s all ranks wait, and nothing is under way: a deadlock, unless a goroutine of the program acts:\nrank 0 waits\n", out.String())
}

// Whoever knows of all processes hears once of a stall, again when what was in doubt is sure, of a
// doubt at each look when it has lasted, and that the rank moves if it has heard anything.
func TestStallIsReported(t *testing.T) {
	x := newStallScript(t, Config{}, true)
	step := func(found *stall, moves bool, want ...string) {
		t.Helper()
		x.found, x.told = found, nil
		if moves {
			x.moves()
		}
		x.tick(10 * time.Minute)
		require.Equal(t, want, x.told)
		require.Nil(t, x.c.world.aborted.Load(), "another one decides")
	}
	step(nil, false)
	step(nil, false)
	step(sure, false, "stalls")
	step(sure, false)
	step(sure, true, "moves")
	step(sure, false, "stalls")
	step(nil, false, "moves")
	step(nil, false)
	step(working, false)
	step(unsure, false)
	step(unsure, false)
	step(unsure, false, "doubt")
	step(unsure, false, "doubt")
	step(sure, false, "stalls")
	step(sure, false)
	step(working, false, "moves")
	step(sure, false, "stalls")
	x.s.agreed.Store(&pact{})
	step(sure, false, "stalls") // rank 0 may have begun later
	step(nil, true, "moves")
}

// What goes to the launcher is bounded, and names what may act where that is in doubt.
func TestStallText(t *testing.T) {
	require.Equal(t, "rank 0 waits\na task waits", sure.text())
	require.True(t, strings.HasPrefix(unsure.text(), "rank 0 waits\nthat may act: "), unsure.text())
	for _, n := range []int{maxReason - 1, maxReason, maxReason + 1} {
		text := (&stall{certain: true, waits: []string{strings.Repeat("x", n)}}).text()
		require.Len(t, text, min(n, maxReason))
	}
	require.ErrorIs(t, &DeadlockError{}, ErrDeadlock)
	require.NotErrorIs(t, &DeadlockError{}, ErrAborted)
	require.ErrorIs(t, &remoteDeadlock{"x"}, ErrDeadlock)
	require.NotErrorIs(t, &remoteDeadlock{"x"}, ErrAborted)
	require.True(t, waits.Explained(&DeadlockError{}))
	require.True(t, waits.Explained(fmt.Errorf("it: %w", &remoteDeadlock{"x"})))
}

// The newest question is answered, whether or not an earlier one was.
func TestStallQuestions(t *testing.T) {
	s := &stalls{asks: make(chan uint64, 1)}
	s.asked(1)
	s.asked(2)
	require.Equal(t, uint64(2), <-s.asks)
	s.asked(3)
	require.Equal(t, uint64(3), <-s.asks)
	require.Empty(t, s.asks)
}

// The ranks of a run agree with rank 0: each says what it has found, rank 0 asks all when all wait
// and no frame is under way, and when all say the same again the run ends, or a doubt is said once.
func TestStallAgreementByTheBook(t *testing.T) {
	for _, doubt := range []uint64{0, 1} {
		t.Run(fmt.Sprint("doubt ", doubt), func(t *testing.T) {
			var out bytes.Buffer
			defer func(w io.Writer) { stderr = w }(stderr)
			stderr = &out
			ep, c := amongNeighbours(t, 0, Config{})
			s := c.world.stalls
			s.agree(c.proc)
			s.since = time.Now()
			a := s.agreed.Load()
			say := func(src int, question, sent, here, state uint64, text string) {
				f := frameOf(stalling, 0, question, sent, here, 0, state)
				f.Data = []byte(text)
				c.proc.hear(src, f)
				require.Len(t, a.some, 1)
				<-a.some
				s.gatherAll()
			}
			mine := &stall{certain: true, waits: []string{"0 waits"}, sent: 5, here: 3}
			s.report(mine)
			say(1, 0, 4, 4, 1, "1 waits")
			require.Empty(t, ep.take())
			say(2, 0, 2, 3, 1+doubt, "2 waits") // 11 sent, 10 taken
			require.Empty(t, ep.take())
			require.Empty(t, s.asks)
			say(2, 0, 2, 4, 1+doubt, "2 waits")
			for i, f := range ep.take() {
				require.Equal(t, i+1, f.dst)
				require.Equal(t, frameOf(asking, 0, 1).Head, f.Head)
			}
			require.Equal(t, uint64(1), <-s.asks)
			require.Zero(t, c.proc.traffic.sent.Load(), "to ask changes nothing")
			require.Zero(t, c.proc.traffic.here.Load())
			say(1, 1, 4, 4, 1, "1 waits")
			s.answer(1, mine)
			require.Nil(t, c.world.aborted.Load())
			say(2, 1, 2, 4, 1+doubt, "2 waits")
			if doubt == 0 {
				var d *DeadlockError
				require.ErrorAs(t, c.world.aborted.Load(), &d)
				require.Equal(t, []string{"0 waits", "1 waits", "2 waits"}, d.Ranks)
				require.Empty(t, out.String())
				return
			}
			require.Nil(t, c.world.aborted.Load())
			require.Contains(t, out.String(), "a deadlock, unless a goroutine of the program acts:\n0 waits\n1 waits\n2 waits\n")
			out.Reset()
			say(2, 0, 2, 4, 2, "2 waits") // and all once more
			require.Equal(t, uint64(2), <-s.asks)
			s.answer(2, mine)
			say(1, 2, 4, 4, 1, "1 waits")
			say(2, 2, 2, 4, 2, "2 waits")
			require.Empty(t, out.String(), "once in a run")
			say(1, 0, 0, 0, 0, "") // it moves
			require.Nil(t, a.at0.all[1])
		})
	}

	ep, c := amongNeighbours(t, 1, Config{})
	s := c.world.stalls
	s.agree(c.proc)
	require.Nil(t, s.agreed.Load().at0)
	for state, found := range []*stall{nil, {certain: true, waits: []string{"x"}, sent: 7, here: 9}, {waits: []string{"x"}, sent: math.MaxInt32, here: 1}} {
		s.answer(uint64(4*state), found)
		sent := ep.take()
		require.Len(t, sent, 1)
		want := frameOf(stalling, 0, uint64(4*state))
		if found != nil {
			want = frameOf(stalling, 0, uint64(4*state), uint64(found.sent), uint64(found.here), 0, uint64(state))
			require.True(t, strings.HasPrefix(string(sent[0].Data), "x"))
			require.Equal(t, !found.certain, strings.Contains(string(sent[0].Data), "\nthat may act: "))
		}
		require.Equal(t, want.Head, sent[0].Head)
		require.Zero(t, sent[0].dst)
	}
	s.report(nil)
	require.Equal(t, frameOf(stalling, 0, 0).Head, ep.take()[0].Head)
	c.proc.hear(2, frameOf(asking, 0, 3)) // which is not rank 0
	require.Empty(t, s.asks)
	c.proc.hear(2, frameOf(stalling, 0, 3)) // nor is this one
	c.proc.hear(0, frameOf(asking, 0, 3))
	require.Equal(t, uint64(3), <-s.asks)

	_, c = amongNeighbours(t, 1, Config{DeadlockWarnings: -1})
	require.Nil(t, c.world.stalls)
	c.proc.hear(0, frameOf(asking, 0, 3)) // it waits for ever
	c.world.watchStalls()()
}
