// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/launch"
)

// notes is a rankServer that records the aborts that the launcher sends the ranks.
type notes struct {
	blames
	aborts []launch.Abort
}

func (n *notes) Abort(a *launch.Abort) { n.aborts = append(n.aborts, *a) }

// stateRunner returns the launcher of a job whose ranks are all those of other launchers, so that
// it signals no process.
func stateRunner(ranks int, spec Spec) (*runner, *notes) {
	n := &notes{blames: blames{}}
	r := &runner{spec: spec, server: n, messages: make(chan string, 16), events: make(chan event), over: make(chan struct{}), insisted: map[os.Signal]bool{}}
	for i := range ranks {
		r.procs = append(r.procs, &process{rank: i, prog: &program{name: "p"}, remote: true})
		r.live++
	}
	return r, n
}

// said returns the launcher's messages.
func (r *runner) said() (texts []string) {
	for len(r.messages) > 0 {
		texts = append(texts, <-r.messages)
	}
	return texts
}

// Each event has its status, its message, and its reason for the ranks. No event counts twice, or
// when the job is being ended already.
func TestEventsEndAJob(t *testing.T) {
	disk := errors.New("the disk is full")
	for name, row := range map[string]struct {
		event  func(r *runner)
		status int
		said   string
		abort  launch.Abort
	}{
		"abort": {func(r *runner) { r.handle(event{rank: 1, abort: &launch.Abort{Rank: 1, Code: 7, Reason: "enough"}}) }, 7, "rank 1 ends the job: enough", launch.Abort{Rank: 1, Code: 7, Reason: "enough"}},
		"deadlock": {func(r *runner) {
			r.handle(event{rank: -1, abort: &launch.Abort{Rank: -1, Code: 112, Reason: "deadlock:\na\nb"}})
		}, 112, "deadlock:\na\nb", launch.Abort{Rank: -1, Code: 112, Reason: "deadlock:\na\nb"}},
		"no space": {func(r *runner) { r.noSpace.Store(&disk); r.handle(event{sink: &sink{}}) }, 1, "output cannot be written: the disk is full", launch.Abort{Rank: -1, Code: 1, Reason: "output cannot be written: the disk is full"}},
		"lost": {func(r *runner) { r.handle(event{rank: 2, lost: "its connection ended"}); r.report() }, 1, "rank 2 (p): its connection ended, without its leaving the job; ending the others",
			launch.Abort{Rank: 2, Code: 1, Reason: "its connection ended, without its leaving the job"}},
		"too late": {func(r *runner) { r.spec.Elsewhere, r.spec.Wait = 3, time.Second; r.procs[0].joined = true; r.tooLate() }, 1, "2 of 3 ranks have not been brought by other launchers within 1s; ending the others",
			launch.Abort{Rank: -1, Code: 1, Reason: "2 of 3 ranks have not been brought by other launchers within 1s"}},
		"killed": {func(r *runner) { r.rankEnded(r.procs[1], 137, "killed") }, 137, "rank 1 (p): killed; ending the others", launch.Abort{Rank: 1, Code: 137, Reason: "killed"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, n := stateRunner(3, Spec{Grace: time.Hour})
			row.event(r)
			require.Equal(t, row.status, r.status)
			require.Equal(t, []string{row.said}, r.said())
			require.Equal(t, []launch.Abort{row.abort}, n.aborts)
			require.Equal(t, ending, r.state)
			require.NotNil(t, r.grace)
			require.Equal(t, name == "too late", r.live == 1, "the job does not wait for launchers that have not joined")
			require.LessOrEqual(t, r.live, 1)
			require.True(t, r.termed)
			grace := r.grace
			for range 2 {
				r.handle(event{rank: 0, abort: &launch.Abort{Code: 8}})
				r.handle(event{rank: 0, lost: "later"})
				r.tooLate()
				r.endAll(&launch.Abort{})
			}
			require.Equal(t, row.status, r.status, "the first counts")
			require.Empty(t, r.said())
			require.Len(t, n.aborts, 1)
			require.Equal(t, grace, r.grace)
			require.Empty(t, r.failures)
		})
	}
	r, n := stateRunner(2, Spec{})
	r.handle(event{sink: &sink{}})
	require.Empty(t, n.aborts)
	require.Equal(t, running, r.state)
	r.procs[0].joined, r.procs[1].joined = true, true
	r.tooLate()
	require.Equal(t, running, r.state)
	require.Zero(t, r.status)
	require.Empty(t, r.said())
}

// The message about a rank's failure, and whether the failure ends the job.
func TestFailureMessage(t *testing.T) {
	for _, row := range []struct {
		procs, live, status int
		keep, closed        bool
		said                string
	}{
		{2, 1, 3, false, false, "rank 0 (p): how; ending the others"}, {2, 1, 3, true, false, "rank 0 (p): how; the others go on"}, {2, 0, 3, false, false, "rank 0 (p): how"}, {2, 0, 3, true, false, "rank 0 (p): how"},
		{1, 1, 3, false, false, "rank 0 (p): how"}, {2, 1, 141, false, false, "rank 0 (p): how; ending the others"}, {2, 1, 141, false, true, ""}, {2, 1, 140, false, true, "rank 0 (p): how; ending the others"},
	} {
		r, n := stateRunner(row.procs, Spec{KeepGoing: row.keep})
		r.live = row.live
		r.noPipe.Store(row.closed)
		for range 2 {
			r.failRank(r.procs[0], row.status, "how")
		}
		if row.said == "" {
			require.Empty(t, r.said())
		} else {
			require.Equal(t, []string{row.said}, r.said())
		}
		require.Equal(t, row.status, r.status)
		if row.keep {
			require.Empty(t, n.aborts)
		} else {
			require.Equal(t, []launch.Abort{{Rank: 0, Code: row.status, Reason: "how"}}, n.aborts)
		}
	}
}

// Signals from outside: which of them begin the grace period, which are counted, and what they end.
func TestSignalsToALauncher(t *testing.T) {
	for _, row := range []struct {
		sig               syscall.Signal
		asks, twice, ends bool
	}{
		{syscall.SIGINT, false, true, true}, {syscall.SIGTERM, true, true, true}, {syscall.SIGHUP, true, false, true}, {syscall.SIGQUIT, false, false, false}, {syscall.SIGUSR1, false, false, false}, {syscall.SIGUSR2, false, false, false},
	} {
		require.Equal(t, row.ends, ends(row.sig), row.sig)
		r, n := stateRunner(2, Spec{Grace: time.Hour})
		r.signal(row.sig)
		require.Equal(t, row.asks, r.grace != nil, row.sig)
		require.Equal(t, row.asks, r.asked == os.Signal(row.sig))
		require.Equal(t, row.twice, r.insisted[row.sig])
		require.Equal(t, row.sig == syscall.SIGTERM, r.termed)
		require.Nil(t, r.leaving)
		require.Equal(t, []any{running, 0}, []any{r.state, r.status})
		grace := r.grace
		r.signal(syscall.SIGHUP)
		if grace != nil {
			require.Equal(t, grace, r.grace, "the time runs since the first")
			require.Equal(t, os.Signal(row.sig), r.asked)
		}
		r.signal(row.sig)
		if row.twice {
			require.Equal(t, []any{killing, 128 + int(row.sig)}, []any{r.state, r.status})
			require.Nil(t, r.grace)
			require.Equal(t, os.Signal(row.sig), r.leaving)
		} else {
			require.Equal(t, []any{running, 0}, []any{r.state, r.status})
		}
		require.Empty(t, n.aborts)
		require.Empty(t, r.said(), "no rank of this launcher was killed")

		r, _ = stateRunner(0, Spec{})
		r.signal(row.sig)
		require.Equal(t, row.ends, r.leaving != nil, row.sig)
	}
	// while the job is being ended, they are only passed on
	r, _ := stateRunner(1, Spec{Grace: time.Hour})
	r.endAll(&launch.Abort{})
	grace := r.grace
	r.live = 1
	r.signal(syscall.SIGHUP)
	require.Nil(t, r.asked)
	require.Equal(t, grace, r.grace)

	for _, row := range []struct {
		asked  os.Signal
		state  state
		status int
	}{{syscall.SIGTERM, running, 143}, {syscall.SIGHUP, running, 129}, {nil, ending, 0}, {syscall.SIGHUP, ending, 0}} {
		r, _ := stateRunner(1, Spec{Grace: time.Hour})
		r.asked, r.state, r.grace = row.asked, row.state, make(chan time.Time)
		r.expired()
		require.Equal(t, []any{killing, row.status}, []any{r.state, r.status}, row)
		require.Nil(t, r.grace)
		require.Equal(t, row.state == running, r.leaving != nil, row)
	}
}

// The orders of the launcher of the job to a joining launcher, and the reasons for which that one
// leaves.
func TestJoiningLaunchers(t *testing.T) {
	joining := func() (*runner, *notes) {
		r, n := stateRunner(1, Spec{Grace: time.Hour, Join: "there:1"})
		r.relay = &launch.Relay{}
		return r, n
	}
	r, n := joining()
	r.handle(event{host: &hostEvent{abort: &launch.Abort{Rank: 3, Code: 4, Reason: "why"}}})
	require.Equal(t, []launch.Abort{{Rank: 3, Code: 4, Reason: "why"}}, n.aborts)
	require.Equal(t, []any{ending, 0, false}, []any{r.state, r.status, r.dismissed}, "the status follows at the end of the job")
	r, _ = joining()
	r.handle(event{host: &hostEvent{sig: syscall.SIGTERM}})
	require.True(t, r.termed)
	require.Equal(t, []any{running, 0, false}, []any{r.state, r.status, r.dismissed})
	r, _ = joining()
	r.handle(event{host: &hostEvent{kill: true}})
	require.Equal(t, []any{killing, 0, false}, []any{r.state, r.status, r.dismissed})
	for _, code := range []int{0, 9} {
		r, n = joining()
		r.handle(event{host: &hostEvent{over: true, code: code}})
		require.Equal(t, []any{running, code, true}, []any{r.state, r.status, r.dismissed})
		require.Empty(t, n.aborts)
	}
	r, n = joining()
	r.handle(event{host: &hostEvent{lost: errors.New("EOF")}})
	require.Equal(t, []any{ending, 1, true}, []any{r.state, r.status, r.dismissed})
	require.Equal(t, []string{"the launcher of the job, at there:1, is gone (EOF)"}, r.said())
	require.Equal(t, []launch.Abort{{Rank: -1, Code: 1, Reason: "the launcher of the job, at there:1, is gone (EOF)"}}, n.aborts)

	for _, row := range []struct {
		joining bool
		live    int
		left    bool
	}{{true, 0, true}, {true, 1, false}, {false, 0, false}} {
		r, _ := joining()
		if !row.joining {
			r.relay = nil
		}
		r.live = row.live
		r.leave(syscall.SIGINT)
		require.Equal(t, row.left, r.dismissed, row)
		require.Equal(t, map[bool]int{true: 130}[row.left], r.status)
		require.Equal(t, os.Signal(syscall.SIGINT), r.leaving)
	}
	for _, code := range []int{0, 3} {
		// its ranks end, and the launcher of the job decides what that means
		for _, asked := range []bool{false, true} {
			r, n := joining()
			if asked {
				r.leaving = syscall.SIGTERM
			}
			r.rankEnded(r.procs[0], code, "how")
			require.Equal(t, asked && code == 0, r.dismissed)
			require.Equal(t, map[bool]int{true: 143}[r.dismissed], r.status)
			require.Empty(t, n.aborts)
			require.Empty(t, r.failures)
			require.Zero(t, r.live)
		}
	}
}

// The ranks of launchers on other machines, and how they end.
func TestRanksOfOthers(t *testing.T) {
	r, n := stateRunner(4, Spec{KeepGoing: true})
	r.procs[0].remote = false
	r.late = make(chan time.Time)
	joined := func() (marks string) {
		for _, p := range r.procs {
			marks += map[bool]string{true: "x", false: "."}[p.joined]
		}
		return marks
	}
	r.handle(event{rank: 4, host: &hostEvent{joined: 1}})
	require.Equal(t, "....", joined(), "the job has ended before it began")
	r.handle(event{rank: 2, host: &hostEvent{joined: 1}})
	require.Equal(t, "..x.", joined())
	r.handle(event{rank: 3, host: &hostEvent{joined: 1}})
	require.Equal(t, "..xx", joined())
	require.NotNil(t, r.late)
	r.handle(event{rank: 1, host: &hostEvent{joined: 1}})
	require.Equal(t, ".xxx", joined())
	require.Nil(t, r.late)

	for range 2 {
		r.handle(event{rank: 1, host: &hostEvent{exit: &launch.Death{Code: 137, How: "killed"}}})
	}
	require.Equal(t, []any{3, 137}, []any{r.live, r.status})
	r.handle(event{rank: 2, host: &hostEvent{gone: errors.New("EOF"), ranks: 9, from: "there"}})
	r.report()
	require.Equal(t, 1, r.live)
	require.Equal(t, []string{"rank 1 (p): killed; the others go on", "rank 2 (p): its launcher at there is gone (EOF); the others go on", "rank 3 (p): its launcher at there is gone (EOF); the others go on"}, r.said())
	require.Empty(t, n.aborts)
	r.handle(event{rank: 1, host: &hostEvent{gone: errors.New("EOF"), ranks: 3, from: "there"}})
	require.Equal(t, 1, r.live, "an end counts once")
	require.Empty(t, r.failures)

	// A job that is being ended does not wait for launchers that have not joined.
	r, _ = stateRunner(4, Spec{})
	r.procs[0].remote, r.procs[1].joined, r.procs[2].ended, r.live = false, true, true, 3
	r.late = make(chan time.Time)
	r.endUnjoined()
	require.Nil(t, r.late)
	require.Equal(t, 2, r.live)
	require.Equal(t, []bool{false, false, true, true}, []bool{r.procs[0].ended, r.procs[1].ended, r.procs[2].ended, r.procs[3].ended})

	r = &runner{spec: Spec{Elsewhere: 2, Wait: time.Hour}, progs: make([]program, 3)}
	r.addRemote()
	require.Empty(t, r.procs)
	first, size := r.span()
	require.Equal(t, [2]int{0, 5}, [2]int{first, size})
	r.hosts = &launch.Server{}
	r.live = 3
	r.addRemote()
	require.Equal(t, 5, r.live)
	require.NotNil(t, r.late)
	for i, p := range r.procs {
		require.Equal(t, process{rank: 3 + i, prog: &program{name: "of another launcher"}, remote: true}, *p)
	}
}

// A launcher that waits to join ends with a signal that asks for the end, and with no other.
func TestUntilSignal(t *testing.T) {
	signals := make(chan os.Signal)
	r := &runner{spec: Spec{Signals: signals}}
	ctx, done := r.untilSignal()
	for _, sig := range []os.Signal{syscall.SIGUSR1, syscall.SIGQUIT} {
		signals <- sig
	}
	require.NoError(t, ctx.Err())
	require.Nil(t, done())
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		ctx, done := r.untilSignal()
		signals <- sig
		<-ctx.Done()
		require.Equal(t, sig, done())
	}
}

// say never waits, and events are dropped once they are not handled any more.
func TestNobodyWaitsForTheLauncher(t *testing.T) {
	r, _ := stateRunner(0, Spec{})
	for i := range cap(r.messages) + 3 {
		r.say("%d", i)
	}
	require.Len(t, r.said(), cap(r.messages))
	r.detail("only if it is asked for")
	require.Empty(t, r.said())
	r.spec.Verbose = true
	r.detail("%d", 1)
	require.Equal(t, []string{"1"}, r.said())
	got := make(chan event)
	go func() { got <- <-r.events }()
	r.post(event{rank: 3})
	require.Equal(t, 3, (<-got).rank)
	close(r.over)
	r.post(event{})
	r.fail(0)
	r.fail(3)
	r.fail(4)
	require.Equal(t, 3, r.status)
}

// The launcher tells the janitor in lines; without a janitor it does nothing.
func TestWhatAJanitorIsTold(t *testing.T) {
	rd, wr, err := os.Pipe()
	require.NoError(t, err)
	defer rd.Close()
	j := &janitor{pipe: wr}
	j.watch(12)
	j.forget(34)
	j.clean("a \"b\"\n")
	j.discard("c")
	require.NoError(t, wr.Close())
	text := make([]byte, 100)
	n, err := rd.Read(text)
	require.NoError(t, err)
	require.Equal(t, "+12\n-34\n\"a \\\"b\\\"\\n\"\n=\"c\"\n", string(text[:n]))
	j = nil
	j.watch(12)
	j.stop()
	require.False(t, Janitor(), fmt.Sprint(os.Args))
}
