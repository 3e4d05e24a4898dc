// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm/internal/coll"
	"weft/comm/internal/wire"
	"weft/internal/fabric"
	"weft/internal/fabric/inproc"
)

// mortals are the ranks of a run that can be killed at any frame that they send. Each rank takes
// itself for a process of its own.
type mortals struct {
	worlds   []*world
	handlers []fabric.Handler
	dead     []atomic.Bool
	sent     []atomic.Int64
	killAt   []int64 // by rank: dies instead of sending this frame, counted from 1; 0: lives
	// the fabric tells one rank of a death; the others hear of it from that rank only
	oneNotified bool
	notices     sync.WaitGroup
	// a phase: the rank that sends the next frame of this phase dies, too
	trap atomic.Pointer[string]
	fell atomic.Pointer[string] // the phase of the last rank that was killed
}

type mortal struct {
	fabric.Endpoint
	m    *mortals
	rank int
}

var errKilled = errors.New("killed by the test")

func (e *mortal) Local(int) fabric.Handler { return nil }

func (e *mortal) Bind(h fabric.Handler, p fabric.Progress) {
	e.m.handlers[e.rank] = h
	e.Endpoint.Bind(e, p)
}

func (e *mortal) Deliver(f *fabric.Frame) bool {
	return !e.m.dead[f.Origin].Load() && !e.m.dead[e.rank].Load() && e.m.handlers[e.rank].Deliver(f)
}

func (e *mortal) Lost(src int, err error) { e.m.handlers[e.rank].Lost(src, err) }

// step counts a frame, and kills the rank if its time has come.
func (e *mortal) step(dst int, phase string) error {
	trap := e.m.trap.Load()
	trapped := trap != nil && *trap == phase && e.m.trap.CompareAndSwap(trap, nil)
	if trapped || e.m.killAt[e.rank] > 0 && e.m.sent[e.rank].Add(1) >= e.m.killAt[e.rank] {
		if !e.m.dead[e.rank].Load() {
			e.m.fell.Store(&phase)
		}
		e.m.kill(e.rank)
	}
	if e.m.dead[e.rank].Load() || e.m.dead[dst].Load() {
		return errKilled
	}
	return nil
}

func (e *mortal) Send(dst int, f fabric.Frame) error {
	if err := e.step(dst, phaseOf(&f)); err != nil {
		if e.m.dead[e.rank].Load() {
			return err
		}
		return nil // a fabric may take it all the same
	}
	return e.Endpoint.Send(dst, f)
}

func (e *mortal) Push(dst int, key uint64, data []byte, done func(error)) {
	if err := e.step(dst, "bulk"); err != nil {
		done(err)
		return
	}
	e.Endpoint.Push(dst, key, data, done)
}

// phaseOf names the activity of a rank that sends a frame. (What comes before the first frame and
// after the last one belongs to the fabric and the launcher: their own tests cut that.)
func phaseOf(f *fabric.Frame) string {
	var h wire.Header
	h.Unpack(&f.Head)
	switch h.Proto {
	case wire.CTS:
		return "pull"
	case wire.FailureNotice:
		return "notice"
	case wire.Revoking:
		return "revoke"
	case wire.Agreeing:
		return "agree"
	case wire.Ending:
		return "end"
	case wire.Nudging:
		return "nudge"
	}
	if h.Ctx&1 != 0 {
		name, _, _ := strings.Cut(coll.Collective(h.Aux).String(), " (")
		return name
	}
	return map[wire.Protocol]string{wire.Eager: "eager", wire.RTS: "announce"}[h.Proto]
}

// kill kills a rank; the others hear of it a little later, in any order.
func (m *mortals) kill(r int) {
	if m.dead[r].Swap(true) {
		return
	}
	m.worlds[r].endHere(errKilled, false)
	told := rand.Perm(len(m.worlds))
	if m.oneNotified {
		for _, q := range told {
			if q != r && !m.dead[q].Load() && m.killAt[q] == 0 {
				told = []int{q}
				break
			}
		}
	}
	for _, q := range told {
		if q != r {
			m.notices.Go(func() { m.handlers[q].Lost(r, errKilled) })
		}
	}
}

// run runs a body on all ranks and returns the number of those that have not been killed.
func (m *mortals) run(t testing.TB, killAt []int64, body func(c *Comm) error) (survivors int) {
	n := len(killAt)
	eps, err := inproc.New(n)
	require.NoError(t, err)
	m.worlds, m.handlers = make([]*world, n), make([]fabric.Handler, n)
	m.dead, m.sent, m.killAt = make([]atomic.Bool, n), make([]atomic.Int64, n), killAt
	for r, ep := range eps {
		cfg := Config{Ranks: n, Survive: true}
		_, err := cfg.validate()
		require.NoError(t, err)
		m.worlds[r] = newWorld(context.Background(), cfg, []fabric.Endpoint{&mortal{Endpoint: ep, m: m, rank: r}})
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for r, w := range m.worlds {
		wg.Go(func() {
			errs[r] = w.run(context.Background(), body)
			if m.dead[r].Load() {
				return
			}
			for q, other := range m.worlds { // as the launcher does
				other.at(q).agreements.End(leaveCtx, 0, nil)
			}
		})
	}
	wg.Wait()
	m.notices.Wait()
	for r, err := range errs {
		if !m.dead[r].Load() {
			require.NoError(t, err, "rank %d", r)
			survivors++
		}
	}
	return survivors
}

// work is a program that uses everything. It fails or has the right result.
func work(c *Comm) error {
	n, me := c.Size(), c.Rank()
	right, left := (me+1)%n, (me+n-1)%n
	one, big := []int{me}, make([]int, 4096)
	for i := range big {
		big[i] = me
	}
	if _, err := c.Sendrecv(Of([]int{me}), right, 1, Of(one), left, 1); err != nil {
		return err
	}
	if err := expect("the left neighbour", left, one[0]); err != nil {
		return err
	}
	in := make([]int, len(big))
	if _, err := c.Sendrecv(Of(big), right, 2, Vector(in, len(in)/4, 4, 4), left, 2); err != nil {
		return err
	}
	if err := expect("the end of a large message", left, in[len(in)-1]); err != nil {
		return err
	}
	if me == 0 {
		for range n - 1 {
			if _, err := c.Recv(Of(one), AnySource, 3); err != nil {
				return err
			}
		}
	} else if err := c.Ssend(Of(one), 0, 3); err != nil {
		return err
	}
	d, err := c.Dup()
	if err != nil {
		return err
	}
	s, err := d.Split(me%2, -me)
	if err != nil {
		return err
	}
	if err := s.Barrier(); err != nil {
		return err
	}
	all, parts := make([]int, n), make([]int, n)
	sum := []int{0}
	for _, f := range []func() error{
		func() error { return c.Allreduce(Of([]int{me}), Of(sum), Sum) },
		func() error { return expect("the sum", n*(n-1)/2, sum[0]) },
		func() error { return c.Bcast(Of(in), n-1) },
		func() error { return expect("the root's", (n-2+n)%n, in[0]) },
		func() error { return c.Reduce(Of([]int{me}), Of(sum), Sum, n/2) },
		func() error { return c.Gather(Of([]int{me}), Of(all), 0) },
		func() error { return c.Scatter(Of(all), Of(one), 0) },
		func() error { return expect("my part", me, one[0]) },
		func() error { return c.Allgather(Of([]int{me}), Of(all)) },
		func() error { return c.Alltoall(Of(all), Of(parts)) },
		func() error { return c.Scan(Of([]int{1}), Of(sum), Sum) },
		func() error { return expect("the scan", me+1, sum[0]) },
		func() error { return c.Barrier() },
	} {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// resilient repeats the work with those that are left until all of these have done it, and returns
// their communicator.
func resilient(c *Comm, work func(c *Comm) error) (*Comm, error) {
	ctx := context.Background()
	for {
		good := uint64(1)
		if err := work(c); err != nil {
			if !errors.Is(err, ErrPeerLost) && !errors.Is(err, ErrRevoked) {
				return nil, err
			}
			good = 0
			c.Revoke()
		}
		all, err := c.Agree(ctx, good)
		if err != nil && !errors.Is(err, ErrPeerLost) {
			return nil, err
		}
		if all == 1 && err == nil {
			return c, nil
		}
		c.Revoke()
		if c, err = c.Shrink(ctx); err != nil {
			return nil, err
		}
	}
}

// Whichever rank dies, at whatever frame, the others do the work without it.
func TestKillAtEveryFrame(t *testing.T) {
	const n = 4
	phases := map[string]int{}
	for victim := range n {
		for _, oneNotified := range []bool{false, true} {
			for k := int64(1); ; k++ {
				killAt := make([]int64, n)
				killAt[victim] = k
				m := &mortals{oneNotified: oneNotified}
				var size atomic.Int64
				survivors := m.run(t, killAt, func(c *Comm) error {
					c, err := resilient(c, work)
					if err == nil && !m.dead[c.proc.rank].Load() {
						size.Store(int64(c.Size()))
					}
					return err
				})
				requireNoRankGoroutines(t)
				if survivors == n {
					break
				}
				phases[*m.fell.Load()]++
				require.Equal(t, n-1, survivors)
				require.Contains(t, []int64{n - 1, n}, size.Load(), "killed at frame %d: it may have died after the work", k)
			}
		}
	}
	for _, phase := range []string{"eager", "announce", "pull", "bulk", "barrier", "bcast", "reduce", "allreduce", "scan", "gather", "scatter", "allgather", "alltoall", "agree"} {
		require.NotZero(t, phases[phase], "no rank was killed in this phase of the work: %s; but in %v", phase, phases)
	}
}

// Two ranks die, at any frames, the second perhaps while the others agree on the death of the
// first.
func TestKillTwo(t *testing.T) {
	const n = 5
	rounds := 150
	if testing.Short() {
		rounds = 20
	}
	for round := range rounds {
		killAt := make([]int64, n)
		for i, v := range rand.Perm(n)[:3] {
			killAt[v] = 1 + rand.Int64N(80)
			if i == 2 {
				killAt[v] = 40 + rand.Int64N(60)
			}
		}
		m := &mortals{oneNotified: round%2 == 0}
		m.run(t, killAt, func(c *Comm) error {
			_, err := resilient(c, work)
			return err
		})
		requireNoRankGoroutines(t)
	}
}

// Two ranks die: one at any frame, and one of those that tell others of that death, or agree on
// what to do.
func TestKillInEveryPhaseOfFailure(t *testing.T) {
	const n = 5
	for _, phase := range []string{"notice", "revoke", "agree"} {
		for k := range int64(20) { // all of these frames are well within the work
			killAt := make([]int64, n)
			killAt[k%n] = 1 + k
			m := &mortals{}
			m.trap.Store(&phase)
			survivors := m.run(t, killAt, func(c *Comm) error {
				_, err := resilient(c, work)
				return err
			})
			requireNoRankGoroutines(t)
			require.Nil(t, m.trap.Load(), "killed at frame %d: no rank was in this phase: %s", k+1, phase)
			require.Contains(t, []int{n - 2, n - 1}, survivors, "killed at frame %d: it may be the same one", k+1)
		}
	}
}

// A rank of one process that returns an error before the k-th step is lost to the others, which go
// on.
func TestDieTogether(t *testing.T) {
	const n = 4
	for victim := range n {
		for k := range 14 {
			var survivors atomic.Int64
			err := Run(context.Background(), Config{Ranks: n, Survive: true}, func(c *Comm) error {
				me, steps := c.Rank(), 0
				c, err := resilient(c, func(c *Comm) error {
					for _, f := range []func(*Comm) error{work, (*Comm).Barrier, work, func(c *Comm) error { _, err := c.Dup(); return err }, work} {
						if steps++; me == victim && steps == k {
							if k%2 == 0 {
								panic(errTest)
							}
							return errTest
						}
						if err := f(c); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					return err
				}
				survivors.Add(1)
				return expect("ranks that are left", n-min(1, btoi(0 < k && k <= 5)), c.Size())
			})
			requireNoRankGoroutines(t)
			if k == 0 || k > 5 {
				require.NoError(t, err)
				continue
			}
			require.Equal(t, int64(n-1), survivors.Load())
			var of *RankError
			require.ErrorAs(t, err, &of)
			require.Equal(t, victim, of.Rank)
			require.ErrorIs(t, err, errTest)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Each way to wait for a rank ends when that rank dies, and no other wait does; each way to begin
// such a wait fails at once.
func TestLossEndsWhatNeedsTheRank(t *testing.T) {
	for where, block := range blockers {
		if where == "the context" {
			continue
		}
		for way, run := range runners {
			t.Run(where+", "+way, func(t *testing.T) {
				var here sync.WaitGroup
				here.Add(1)
				err := run(context.Background(), Config{Ranks: 4, Survive: true}, func(c *Comm) error {
					if c.Rank() == 0 {
						here.Wait()
						return errTest
					}
					var other *Request
					if c.Rank() == 2 {
						other = c.Irecv(Buffer{}, 3, 50)
						here.Done()
					}
					for i := range 2 {
						err := block(c)
						if !errors.Is(err, ErrPeerLost) {
							return fmt.Errorf("call %d: %v, not lost", i, err)
						}
						var lost *LostError
						if !errors.As(err, &lost) || lost.Rank != 0 {
							return fmt.Errorf("it does not say which rank: %v", err)
						}
					}
					if err := expectSlice("failed ranks", []int{0}, c.Failed()); err != nil {
						return err
					}
					switch c.Rank() { // the rest works
					case 2:
						_, err := other.Wait(context.Background())
						return err
					case 3:
						return c.Send(Buffer{}, 2, 50)
					}
					return nil
				})
				var of *RankError
				require.ErrorAs(t, err, &of)
				require.Equal(t, 0, of.Rank, "%v", err)
				require.ErrorIs(t, err, errTest)
			})
		}
	}
}

// A receive from any source fails once for each death that is not acknowledged.
func TestAckFailed(t *testing.T) {
	for _, run := range runners {
		_ = run(context.Background(), Config{Ranks: 3, Survive: true}, func(c *Comm) error {
			one := make([]int, 1)
			switch c.Rank() {
			case 0:
				return errTest
			case 2:
				_, err := c.Recv(Of(one), 1, 1)
				if err == nil {
					err = c.Send(Of(one), 1, 2)
				}
				return err
			}
			for range 2 {
				_, err := c.Recv(Of(one), AnySource, 2)
				require.ErrorIs(t, err, ErrPeerLost)
			}
			require.Equal(t, []int{0}, c.Failed())
			require.Equal(t, 0, c.AckFailed(0))
			require.Equal(t, 1, c.AckFailed(5))
			require.Equal(t, 1, c.AckFailed(0))
			r := c.Irecv(Of(one), AnySource, 2)
			require.False(t, r.Done())
			require.NoError(t, c.Send(Of([]int{1}), 2, 1), "not from the memory that the receive owns")
			st, err := r.Wait(context.Background())
			require.NoError(t, err)
			require.Equal(t, 2, st.Source)
			require.ErrorIs(t, c.Barrier(), ErrPeerLost, "acknowledged or not")
			return nil
		})
	}
}

// A message that was here before its sender died is received.
func TestMessageOfTheDead(t *testing.T) {
	for _, run := range runners {
		_ = run(context.Background(), Config{Ranks: 2, Survive: true}, func(c *Comm) error {
			one := []int{7}
			if c.Rank() == 0 {
				if err := c.Send(Of(one), 1, 1); err != nil {
					return err
				}
				return errTest
			}
			for len(c.Failed()) == 0 {
				if _, err := c.Recv(Of(one), 0, 9); err != nil {
					require.ErrorIs(t, err, ErrPeerLost)
				}
			}
			one[0] = 0
			_, err := c.Recv(Of(one), 0, 1)
			require.NoError(t, err)
			require.Equal(t, 7, one[0])
			_, err = c.Recv(Of(one), 0, 1)
			require.ErrorIs(t, err, ErrPeerLost)
			return nil
		})
	}
}

// Revoke gets all ranks out of every kind of wait on that communicator, and on no other.
func TestRevoke(t *testing.T) {
	for where, block := range blockers {
		if where == "the context" {
			continue
		}
		for way, run := range runners {
			t.Run(where+", "+way, func(t *testing.T) {
				require.NoError(t, run(context.Background(), Config{Ranks: 4}, func(c *Comm) error {
					d, err := c.Dup()
					if err != nil {
						return err
					}
					if d.Rank() == 0 {
						d.Revoke()
					}
					for i := range 2 {
						if err := block(d); !errors.Is(err, ErrRevoked) {
							return fmt.Errorf("call %d: %v, not revoked", i, err)
						}
					}
					if err := expect("revoked", true, d.Revoked()); err != nil {
						return err
					}
					if all, err := d.Agree(context.Background(), uint64(3-c.Rank()&1)); err != nil || all != 2 {
						return fmt.Errorf("agreed on %d: %v", all, err)
					}
					s, err := d.Shrink(context.Background())
					if err != nil {
						return err
					}
					if err := work(s); err != nil {
						return err
					}
					return work(c)
				}))
			})
		}
	}
}

func TestMixedAgreement(t *testing.T) {
	run(t, 3, func(c *Comm) error {
		var err error
		if c.Rank() == 1 {
			_, err = c.Shrink(context.Background())
		} else {
			_, err = c.Agree(context.Background(), 0)
		}
		if !errors.Is(err, ErrMismatch) {
			return fmt.Errorf("no mismatch: %v", err)
		}
		return nil
	})
}

func TestSurviveOfTheEnvironment(t *testing.T) {
	t.Setenv(EnvSurvive, "1")
	cfg := Config{}
	_, err := cfg.validate()
	require.NoError(t, err)
	require.True(t, cfg.Survive)
	t.Setenv(EnvSurvive, "yes")
	cfg = Config{}
	_, err = cfg.validate()
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, EnvSurvive)
}
