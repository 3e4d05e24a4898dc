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
	roles["caused"] = func() int {
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
			time.Sleep(3 * blameTime) // the launcher knows of all others, and must wait for more
			return 3
		})
	}
	roles["caused-by-none"] = func() int {
		return joined(func(c *launch.Client) int {
			if c.Rank() == 0 {
				check(c.Blame(launch.Blame{Rank: 1, Certain: true}))
				return 4
			}
			return 0
		})
	}
	roles["observer"] = func() int { return observerRole(false) }
	roles["observer-that-tells"] = func() int { return observerRole(true) }
}

// observerRole is the role of a job whose rank 1 is killed when all others are connected to it. The
// others end in order as soon as they notice.
func observerRole(tell bool) int {
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

// The kernel closes the files of a killed rank some time before its parent can reap it. So other
// ranks notice the end before the launcher does.
func TestFirstFailureIsTheKilledHammer(t *testing.T) {
	for range 8 {
		for _, name := range []string{"observer", "observer-that-tells"} {
			o := run(t, Spec{Parts: []Part{role(name, 3)}})
			require.NoError(t, o.err)
			require.Equal(t, 137, o.status, o.errOut)
			require.Regexp(t, `^weft run: rank 1 \(.*\): killed by signal 9 \(killed\)`, o.errOut)
		}
	}
}

// A rank that fails because of another one blames it, and the launcher waits for the blamed rank.
func TestBlame(t *testing.T) {
	defer func(d time.Duration) { causeTime = d }(causeTime)
	causeTime = time.Minute // rank 1 needs a processor now and then
	o := run(t, Spec{Parts: []Part{role("caused", 3)}})
	require.NoError(t, o.err)
	require.Equal(t, 3, o.status, o.errOut)
	require.Regexp(t, `^weft run: rank 1 \(.*\): exit status 3\n$`, o.errOut)

	o = run(t, Spec{KeepGoing: true, Parts: []Part{role("caused", 3)}})
	require.NoError(t, o.err)
	require.Equal(t, 3, o.status, o.errOut)
	require.Regexp(t, `^weft run: rank 1 \(.*\): exit status 3\n.*rank [02] .*exit status 1, because of rank 1\n.*because of rank 1\n$`, o.errOut)

	o = run(t, Spec{Parts: []Part{role("caused-by-none", 2)}})
	require.NoError(t, o.err)
	require.Equal(t, 4, o.status, o.errOut)
	require.Regexp(t, `^weft run: rank 0 \(.*\): exit status 4, because of rank 1\n$`, o.errOut)
}

// The blamed rank is one of another launcher.
func TestBlameElsewhere(t *testing.T) {
	dir := isolate(t)
	a, other := startTwo(t, launcherSpec{Parts: parts(role("caused", 1))}, 1)
	other.Parts = parts(role("caused", 1))
	b := startMachine(t, other)
	status, text := a.end()
	require.Equal(t, 3, status, text)
	require.Equal(t, "weft run: rank 1 (of another launcher): exit status 3\n", text)
	status, text = b.end()
	require.Equal(t, 3, status, text)
	requireClean(t, dir)
}

// blames is a rankServer that knows only which rank blames which.
type blames map[int]int

const maybe = 100 // added to a blamed rank: it is not certain

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

// The order in which the launcher hears of ends, and the status that the job must have. judge
// stands for the time after which the launcher judges.
func TestWhichFailureIsTheFirst(t *testing.T) {
	type end struct{ rank, code int }
	judge := end{-1, 0}
	for name, row := range map[string]struct {
		blames blames
		ends   []end
		status int // after the last; 0: still waiting
		first  string
	}{
		"alone":                                  {nil, []end{{2, 5}, judge}, 5, "rank 2 (p): exit status 5"},
		"before it is looked":                    {nil, []end{{2, 5}}, 0, ""},
		"killed, at once":                        {nil, []end{{2, 137}}, 137, "rank 2"},
		"killed counts before":                   {nil, []end{{0, 1}, {1, 137}}, 137, "rank 1"},
		"not leaving counts before":              {nil, []end{{0, 1}, {1, 99}, judge}, 99, "rank 1"},
		"two of a kind: the first":               {nil, []end{{1, 4}, {0, 1}, judge}, 4, "rank 1"},
		"blames: waits":                          {blames{0: 1}, []end{{0, 1}, judge, judge}, 0, ""},
		"blames: the cause":                      {blames{0: 1}, []end{{0, 1}, judge, {1, 3}, judge}, 3, "rank 1 (p): exit status 3;"},
		"blames: a chain":                        {blames{0: 1, 1: 2}, []end{{0, 1}, judge, {1, 3}, judge, {2, 6}, judge}, 6, "rank 2"},
		"blames: a chain waits":                  {blames{0: 1, 1: 2}, []end{{0, 1}, judge, {1, 3}, judge}, 0, ""},
		"blames: each other":                     {blames{0: 1, 1: 0}, []end{{0, 1}, judge, {1, 3}, judge}, 1, "rank 0 (p): exit status 1, because of rank 1;"},
		"blames: the cause ends well":            {blames{0: 1}, []end{{0, 1}, {1, 0}, judge}, 1, "rank 0 (p): exit status 1, because of rank 1"},
		"blames: another fails by itself":        {blames{0: 1}, []end{{0, 1}, {2, 7}, judge}, 7, "rank 2"},
		"blames none in particular":              {blames{0: -1}, []end{{0, 1}, judge}, 1, "rank 0 (p): exit status 1;"},
		"blames none in particular, other first": {blames{0: -1}, []end{{0, 1}, {1, 2}, judge}, 2, "rank 1"},
		"blames, and killed: waits":              {blames{0: 1}, []end{{0, 134}, judge}, 0, ""},
		"blames, and killed: the cause":          {blames{0: 1}, []end{{0, 134}, judge, {1, 3}, judge}, 3, "rank 1"},
		"not leaving because of others":          {blames{0: 1}, []end{{0, 99}, judge, {1, 3}, judge}, 3, "rank 1"},
		"may be due: waits":                      {blames{0: maybe + 1}, []end{{0, 1}, judge}, 0, ""},
		"may be due: the cause":                  {blames{0: maybe + 1}, []end{{0, 1}, judge, {1, 3}, judge}, 3, "rank 1"},
		"may be due, other ends well":            {blames{0: maybe + 1}, []end{{1, 0}, {0, 2}, judge}, 2, "rank 0 (p): exit status 2;"},
		"all have ended":                         {blames{0: 1, 1: 3, 3: 1}, []end{{2, 0}, {0, 1}, {1, 8}, {3, 9}}, 1, "rank 0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &runner{server: row.blames, messages: make(chan string, 16)}
			for i := range 4 {
				r.procs = append(r.procs, &process{rank: i, prog: &program{name: "p"}, remote: true})
				r.live++
			}
			for _, e := range row.ends {
				if e == judge {
					require.NotNil(t, r.blame)
					r.judge()
					continue
				}
				how := fmt.Sprintf("exit status %d", e.code)
				r.rankEnded(r.procs[e.rank], e.code, how)
			}
			require.Equal(t, row.status, r.status)
			require.Equal(t, row.status != 0, r.state != running || r.live == 0)
			if row.first != "" {
				require.Contains(t, <-r.messages, row.first)
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
