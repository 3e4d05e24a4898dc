// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/launch"
)

func init() {
	roles["led"] = func() int {
		return joined(func(c *launch.Client) int {
			if c.Rank() != 1 {
				check(c.Blame(launch.Blame{Rank: 1, Certain: true}))
				return 1
			}
			heard := make(chan struct{}, 8)
			c.Watch(func(error) { heard <- struct{}{} })
			for range c.Size() - 1 {
				<-heard
			}
			time.Sleep(3 * blameTime) // the launcher knows of all others, and is to wait for more
			return 3
		})
	}
	roles["led-by-none"] = func() int {
		return joined(func(c *launch.Client) int {
			if c.Rank() == 0 {
				check(c.Blame(launch.Blame{Rank: 1, Certain: true}))
				return 4
			}
			return 0
		})
	}
	roles["witness"] = func() int { return witnessRole(false) }
	roles["witness-that-tells"] = func() int { return witnessRole(true) }
}

// witnessRole is a job whose rank 1 is killed when all others are connected to it. They end as soon
// as they notice, in order.
func witnessRole(tell bool) int {
	c := join()
	path := filepath.Join(c.Dir(), "w")
	if c.Rank() == 1 {
		l, err := net.Listen("unix", path)
		check(err)
		check(c.Put("here", nil))
		for range c.Size() - 1 {
			_, err := l.Accept()
			check(err)
		}
		check(syscall.Kill(os.Getpid(), syscall.SIGKILL))
	}
	_, err := c.Get(context.Background(), 1, "here")
	check(err)
	conn, err := net.Dial("unix", path)
	check(err)
	_, _ = io.Copy(io.Discard, conn)
	if tell {
		check(c.Blame(launch.Blame{Rank: 1, Certain: true}))
	}
	check(c.Leave())
	return 1
}

// The kernel closes what a killed rank has, and then takes its time. Others notice before the
// launcher does.
func TestFirstFailureIsTheKilledHammer(t *testing.T) {
	for range 8 {
		for _, name := range []string{"witness", "witness-that-tells"} {
			o := run(t, Spec{Parts: []Part{role(name, 3)}})
			require.NoError(t, o.err)
			require.Equal(t, 137, o.status, o.errOut)
			require.Regexp(t, `^weft run: rank 1 \(.*\): killed by signal 9 \(killed\)`, o.errOut)
		}
	}
}

// Who fails because of another says so, and the launcher waits for that one.
func TestBlame(t *testing.T) {
	defer func(d time.Duration) { causeTime = d }(causeTime)
	causeTime = time.Minute // rank 1 has to be given a processor now and then
	o := run(t, Spec{Parts: []Part{role("led", 3)}})
	require.NoError(t, o.err)
	require.Equal(t, 3, o.status, o.errOut)
	require.Regexp(t, `^weft run: rank 1 \(.*\): exit status 3\n$`, o.errOut)

	o = run(t, Spec{KeepGoing: true, Parts: []Part{role("led", 3)}})
	require.NoError(t, o.err)
	require.Equal(t, 3, o.status, o.errOut)
	require.Regexp(t, `^weft run: rank 1 \(.*\): exit status 3\n.*rank [02] .*exit status 1, because of rank 1\n.*because of rank 1\n$`, o.errOut)

	o = run(t, Spec{Parts: []Part{role("led-by-none", 2)}})
	require.NoError(t, o.err)
	require.Equal(t, 4, o.status, o.errOut)
	require.Regexp(t, `^weft run: rank 0 \(.*\): exit status 4, because of rank 1\n$`, o.errOut)
}

// The rank that another one blames is of another launcher.
func TestBlameElsewhere(t *testing.T) {
	dir := isolate(t)
	a, other := startTwo(t, launcherSpec{Parts: parts(role("led", 1))}, 1)
	other.Parts = parts(role("led", 1))
	b := startMachine(t, other)
	status, text := a.end()
	require.Equal(t, 3, status, text)
	require.Equal(t, "weft run: rank 1 (of another launcher): exit status 3\n", text)
	status, text = b.end()
	require.Equal(t, 3, status, text)
	requireClean(t, dir)
}

// blames is a hub that knows who blames whom, and nothing else.
type blames map[int]int

const maybe = 100 // added to a rank: it is not certain

func (b blames) Dir() string                   { return "" }
func (b blames) Identity(int) *launch.Identity { return nil }
func (b blames) Settle(int)                    {}
func (b blames) Abort(*launch.Abort)           {}
func (b blames) Close() error                  { return nil }
func (b blames) Blames(r int) *launch.Blame {
	of, ok := b[r]
	if !ok {
		return nil
	}
	if of >= maybe {
		return &launch.Blame{Rank: of - maybe}
	}
	return &launch.Blame{Rank: of, Certain: true}
}
func (b blames) Ended(r, code int, how string) (*launch.Death, bool) {
	orderly := code < 128 && code != 99 // 99: a rank that does not leave
	return &launch.Death{Rank: r, Code: code, How: how, Clean: code == 0}, orderly
}

// The order in which ends are heard of, and what the job's status is to be. "?" stands for the time
// after which the launcher looks.
func TestWhichFailureIsTheFirst(t *testing.T) {
	type end struct{ rank, code int }
	look := end{-1, 0}
	for name, row := range map[string]struct {
		blames blames
		ends   []end
		status int // after the last; 0: still waiting
		first  string
	}{
		"alone":                         {nil, []end{{2, 5}, look}, 5, "rank 2 (p): exit status 5"},
		"before it is looked":           {nil, []end{{2, 5}}, 0, ""},
		"killed, at once":               {nil, []end{{2, 137}}, 137, "rank 2"},
		"killed counts before":          {nil, []end{{0, 1}, {1, 137}}, 137, "rank 1"},
		"not leaving counts before":     {nil, []end{{0, 1}, {1, 99}, look}, 99, "rank 1"},
		"two of a kind: the first":      {nil, []end{{1, 4}, {0, 1}, look}, 4, "rank 1"},
		"told: waits":                   {blames{0: 1}, []end{{0, 1}, look, look}, 0, ""},
		"told: the cause":               {blames{0: 1}, []end{{0, 1}, look, {1, 3}, look}, 3, "rank 1 (p): exit status 3;"},
		"told: a chain":                 {blames{0: 1, 1: 2}, []end{{0, 1}, look, {1, 3}, look, {2, 6}, look}, 6, "rank 2"},
		"told: a chain waits":           {blames{0: 1, 1: 2}, []end{{0, 1}, look, {1, 3}, look}, 0, ""},
		"told: each other":              {blames{0: 1, 1: 0}, []end{{0, 1}, look, {1, 3}, look}, 1, "rank 0 (p): exit status 1, because of rank 1;"},
		"told: the cause ends well":     {blames{0: 1}, []end{{0, 1}, {1, 0}, look}, 1, "rank 0 (p): exit status 1, because of rank 1"},
		"told: another is its own":      {blames{0: 1}, []end{{0, 1}, {2, 7}, look}, 7, "rank 2"},
		"told: not by whom":             {blames{0: -1}, []end{{0, 1}, look}, 1, "rank 0 (p): exit status 1;"},
		"told: not by whom, own first":  {blames{0: -1}, []end{{0, 1}, {1, 2}, look}, 2, "rank 1"},
		"told, and killed: waits":       {blames{0: 1}, []end{{0, 134}, look}, 0, ""},
		"told, and killed: the cause":   {blames{0: 1}, []end{{0, 134}, look, {1, 3}, look}, 3, "rank 1"},
		"not leaving because of others": {blames{0: 1}, []end{{0, 99}, look, {1, 3}, look}, 3, "rank 1"},
		"knows of it: waits":            {blames{0: maybe + 1}, []end{{0, 1}, look}, 0, ""},
		"knows of it: the cause":        {blames{0: maybe + 1}, []end{{0, 1}, look, {1, 3}, look}, 3, "rank 1"},
		"knew of it, which ended well":  {blames{0: maybe + 1}, []end{{1, 0}, {0, 2}, look}, 2, "rank 0 (p): exit status 2;"},
		"all have ended":                {blames{0: 1, 1: 3, 3: 1}, []end{{2, 0}, {0, 1}, {1, 8}, {3, 9}}, 1, "rank 0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &runner{server: row.blames, words: make(chan string, 16)}
			for i := range 4 {
				r.procs = append(r.procs, &process{rank: i, prog: &program{name: "p"}, remote: true})
				r.live++
			}
			for _, e := range row.ends {
				if e == look {
					require.NotNil(t, r.blame)
					r.judge()
					continue
				}
				how := fmt.Sprintf("exit status %d", e.code)
				r.endedSo(r.procs[e.rank], e.code, how)
			}
			require.Equal(t, row.status, r.status)
			require.Equal(t, row.status != 0, r.state != running || r.live == 0)
			if row.first != "" {
				require.Contains(t, <-r.words, row.first)
			} else {
				r.firstAt = time.Now().Add(-causeTime)
				r.judge()
				require.NotZero(t, r.status, "not for ever")
			}
		})
	}
}

func TestDying(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	require.False(t, dying(os.Getpid()))
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "exit 0"}, &os.ProcAttr{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return dying(p.Pid) }, 60*time.Second, time.Millisecond, "a zombie")
	_, err = p.Wait()
	require.NoError(t, err)
	require.True(t, dying(p.Pid), "it is gone")
}
