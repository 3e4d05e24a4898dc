// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm/internal/coll"
	"weft/comm/internal/wire"
	"weft/internal/fabric"
	"weft/internal/fabric/inproc"
)

// idle returns a run in this process whose ranks have no functions, and their communicators: of all
// ranks, and of the first three in reverse, whose lineage has the context 1<<32|2.
func idle(t *testing.T, ranks int, cfg Config) (w *world, all, three []*Comm) {
	t.Helper()
	cfg.Ranks = ranks
	_, err := cfg.validate()
	require.NoError(t, err)
	eps, err := inproc.New(ranks)
	require.NoError(t, err)
	w = newWorld(context.Background(), cfg, eps)
	t.Cleanup(func() { w.end(ErrEnded) })
	for r := range ranks {
		c := w.comm(r)
		c.joinMemory(-1)
		w.at(r).addComm(c)
		all, three = append(all, c), append(three, nil)
	}
	for r := range 3 {
		three[r] = all[r].sub([]int{2, 1, 0}, 1<<32|4)
		three[r].lineage = []uint64{1<<32 | 2, 1<<32 | 4}
		three[r].joinMemory(-1)
	}
	return w, all, three
}

// Of all failures, the one that bars an operation is: the end of its rank, before a revocation,
// before a disagreement, before losses. Of several losses it is that of the peer; for any source,
// the first that is not acknowledged; for all members, the first.
func TestBarredBy(t *testing.T) {
	_, all, three := idle(t, 4, Config{Survive: true})
	dead, parts := errors.New("dead"), errors.New("parts")
	lost := []error{errors.New("0"), errors.New("1"), errors.New("2"), errors.New("3")}
	require.NoError(t, all[0].barred(nil, 1, false))
	for _, isDead := range []bool{false, true} {
		for _, revoked := range []uint64{0, 1<<32 | 2, 1<<32 | 4, 1<<32 | 6} {
			// none, what three was made of, itself, another one
			for _, disagrees := range []bool{false, true} {
				for _, order := range [][]int{nil, {3}, {1}, {3, 1}, {1, 3}, {2, 3, 1}} {
					tr := &failureState{order: order}
					if isDead {
						tr.dead = dead
					}
					if revoked != 0 {
						tr.revoked = map[uint64]struct{}{revoked: {}}
					}
					if disagrees {
						tr.disagrees = map[uint64]*disagreement{1<<32 | 4: {err: parts}}
					}
					if order != nil {
						tr.lost = map[int]error{}
						for _, r := range order {
							tr.lost[r] = lost[r]
						}
					}
					for _, c := range []*Comm{all[0], three[0]} {
						var members []int // lost, as ranks of c
						for _, r := range order {
							if c.group == nil {
								members = append(members, r)
							} else if r < 3 {
								members = append(members, 2-r)
							}
						}
						for acked := range len(members) + 1 {
							c.acked.Store(int32(acked))
							for _, collective := range []bool{false, true} {
								for peer := AnySource; peer < c.size; peer++ {
									var want error
									switch {
									case isDead:
										want = dead
									case c == three[0] && (revoked == 1<<32|2 || revoked == 1<<32|4):
										want = ErrRevoked
									case collective && disagrees && c == three[0]:
										want = parts
									case collective && len(members) > 0:
										want = lost[c.worldRank(members[0])]
									case collective:
									case peer == AnySource && len(members) > acked:
										want = lost[c.worldRank(members[acked])]
									case slices.Contains(members, peer):
										want = lost[c.worldRank(peer)]
									}
									what := fmt.Sprintf("%+v, %d ranks, %d acknowledged, peer %d, collective %v", tr, c.size, acked, peer, collective)
									require.Equal(t, want, c.barred(tr, peer, collective), what)
									if peer >= 0 {
										require.Equal(t, c == three[0] && (revoked == 1<<32|2 || revoked == 1<<32|4), c.revokedIn(tr))
									}
								}
							}
						}
						c.acked.Store(0)
						require.Equal(t, members, c.failures(tr).ranks)
						require.Same(t, c.failures(tr), c.failures(tr), "it is computed once")
					}
				}
			}
		}
	}
	tr := &failureState{lost: map[int]error{1: lost[1]}}
	for r := -1; r <= 4; r++ {
		require.Equal(t, tr.lost[r], tr.lostRank(r))
	}
	require.NoError(t, (*failureState)(nil).lostRank(1))
	require.Equal(t, []int{2, 1, 0, -1}, []int{three[1].memberRank(0), three[1].memberRank(1), three[1].memberRank(2), three[1].memberRank(3)})
}

// A rank refuses messages after its end, of revoked communicators, and of collectives that are
// lost. From a sender in this process it also refuses what that sender does not know yet. From
// another process such a message is only too late.
func TestRefusedMessages(t *testing.T) {
	w, all, three := idle(t, 4, Config{Survive: true})
	parts, lost2, lost3 := errors.New("parts"), errors.New("2"), errors.New("3")
	p := w.at(1)
	from := func(c *Comm) *sendOp { return &sendOp{c: c} }
	const c2 = 1<<32 | 4 // three's
	for _, row := range []struct {
		name string
		t    failureState
		ctx  uint64
		from *sendOp
		want error
	}{
		{"a message where nothing concerns it", failureState{revoked: map[uint64]struct{}{9 << 1: {}}}, 0, from(all[0]), nil},
		{"a message of a revoked communicator", failureState{revoked: map[uint64]struct{}{c2: {}}}, c2, nil, ErrRevoked},
		{"a collective of a revoked communicator", failureState{revoked: map[uint64]struct{}{c2: {}}}, c2 + 1, nil, ErrRevoked},
		{"a message of what was made of a revoked one, from another process", failureState{revoked: map[uint64]struct{}{1<<32 | 2: {}}}, c2, nil, nil},
		{"the same from this process", failureState{revoked: map[uint64]struct{}{1<<32 | 2: {}}}, c2, from(three[0]), ErrRevoked},
		{"a collective where ranks disagree", failureState{disagrees: map[uint64]*disagreement{c2: {err: parts}}}, c2 + 1, nil, parts},
		{"a message where ranks disagree", failureState{disagrees: map[uint64]*disagreement{c2: {err: parts}}}, c2, from(three[0]), nil},
		{"a collective where ranks of another communicator disagree", failureState{disagrees: map[uint64]*disagreement{0: {err: parts}}}, c2 + 1, from(three[0]), nil},
		{"a collective without a member", failureState{lost: map[int]error{2: lost2, 3: lost3}, order: []int{3, 2}}, c2 + 1, from(three[0]), lost2},
		{"a collective of all without two", failureState{lost: map[int]error{2: lost2, 3: lost3}, order: []int{3, 2}}, 1, from(all[0]), lost3},
		{"the same from another process", failureState{lost: map[int]error{2: lost2, 3: lost3}, order: []int{3, 2}}, 1, nil, nil},
		{"a collective without one that is no member", failureState{lost: map[int]error{3: lost3}, order: []int{3}}, c2 + 1, from(three[0]), nil},
		{"a message of a rank that is lost", failureState{lost: map[int]error{2: lost2, 3: lost3}, order: []int{3, 2}}, c2, from(three[2]), lost2},
		{"a message of one that is not", failureState{lost: map[int]error{2: lost2, 3: lost3}, order: []int{3, 2}}, c2, from(three[0]), nil},
	} {
		require.Equal(t, row.want, p.refuses(&row.t, &wire.Header{Ctx: row.ctx}, row.from), row.name)
	}
	err := p.refuses(&failureState{dead: errTest}, &wire.Header{}, nil)
	require.Equal(t, &LostError{Rank: 1, Err: errTest}, err, "only the receiver is at its end")
	w.end(errTest)
	require.Equal(t, error(w.aborted.Load()), p.refuses(&failureState{dead: errTest}, &wire.Header{}, nil), "the run is")
}

// A loss, a revocation and an end take the operations that they affect out of a rank's matcher,
// with the cause, and no others; a second time they do nothing. Each operation ends once, and its
// caller sees the cause.
func TestEndedOperations(t *testing.T) {
	type entry struct {
		name string
		r    *Request
		over bool // complete before the failure
		lose bool // by the loss of rank 2
		rev  bool // by the revocation of what three was made of
	}
	lost := &LostError{Rank: 2, Err: errTest}
	for how, end := range map[string]func(p *proc) bool{
		"lose":   func(p *proc) bool { return p.markLost(2, lost) },
		"revoke": func(p *proc) bool { return p.revoke(1<<32 | 2) },
		"kill":   func(p *proc) bool { return p.kill(errTest) },
	} {
		t.Run(how, func(t *testing.T) {
			w, all, three := idle(t, 4, Config{Survive: true})
			b := func() Buffer { return Of(make([]byte, 8)) }
			big := func() Buffer { return Of(make([]byte, 1<<20)) }
			at := w.at(1)
			entries := []*entry{
				{name: "a receive from 2", r: all[1].Irecv(b(), 2, 1), lose: true},
				{name: "a receive from 0", r: all[1].Irecv(b(), 0, 2)},
				{name: "a receive from any", r: all[1].Irecv(b(), AnySource, 3), lose: true},
				{name: "a receive from 3 of any tag", r: all[1].Irecv(b(), 3, AnyTag)},
				{name: "a receive from 2, which is rank 0 here", r: three[1].Irecv(b(), 0, 1), lose: true, rev: true},
				{name: "a receive from 0, which is rank 2 here", r: three[1].Irecv(b(), 2, 1), rev: true},
				{name: "a synchronous message of 0", r: all[0].Issend(b(), 1, 11)},
				{name: "a synchronous message of 2", r: all[2].Issend(b(), 1, 12), lose: true},
				{name: "a large message of 2", r: all[2].Isend(big(), 1, 13), lose: true},
				{name: "a large message of 0", r: three[0].Isend(big(), 1, 14), rev: true},
				{name: "a small message of 2", r: all[2].Isend(b(), 1, 15), over: true},
				{name: "a message of 2 with a payload of its own", r: all[2].Isend(Of(make([]byte, smallLen+1)), 1, 16), over: true},
			}
			told := map[string]int{}
			for _, e := range entries {
				require.Equal(t, e.over, e.r.Done(), e.name)
				e.r.OnDone(func(error) { told[e.name]++ })
			}
			require.True(t, end(at))
			require.False(t, end(at), "it is known")
			for _, e := range entries {
				ends := map[string]bool{"lose": e.lose, "revoke": e.rev, "kill": true}[how]
				require.Equal(t, e.over || ends, e.r.Done(), e.name)
				require.Equal(t, btoi(e.over || ends), told[e.name], e.name)
				if e.over || !ends {
					continue
				}
				st, err := e.r.Wait(context.Background())
				require.Equal(t, Status{}, st)
				require.ErrorIs(t, err, map[string]error{"lose": ErrPeerLost, "revoke": ErrRevoked, "kill": errTest}[how], e.name)
			}
			_, sub := at.failure.Load().revoked[1<<32|2]
			require.Equal(t, how == "revoke", sub)
			// The rest works: messages that are here, and later ones.
			if how == "kill" {
				return
			}
			require.NoError(t, all[0].Send(b(), 1, 2))
			require.True(t, entries[1].r.Done())
			_, err := all[1].Recv(b(), 2, 15)
			require.NoError(t, err, "it was here")
			_, err = all[1].Recv(Of(make([]byte, smallLen+1)), 2, 16)
			require.NoError(t, err)
			_, err = all[1].Recv(b(), 0, 11)
			require.NoError(t, err)
			require.True(t, entries[6].r.Done())
		})
	}
}

// A sender that is refused because of a failure that its receiver knows has recorded that failure
// when its send ends. An operation that the failure ends may use the receiver, which is not locked
// then.
func TestRefusedSenderKnows(t *testing.T) {
	for name, x := range map[string]struct {
		at1 func(p *proc, c *Comm)
		is  error
	}{
		"revoked": {func(p *proc, c *Comm) { p.revoke(c.ctx) }, ErrRevoked},
		"lost":    {func(p *proc, c *Comm) { p.markLost(0, &LostError{Rank: 0, Err: errTest}) }, ErrPeerLost},
	} {
		t.Run(name, func(t *testing.T) {
			w, all, three := idle(t, 4, Config{Survive: true})
			probed := make(chan error, 4)
			waits := three[0].Irecv(Buffer{}, 1, 9)
			waits.OnDone(func(error) {
				_, _, err := all[1].Iprobe(3, 9)
				probed <- err
			})
			x.at1(w.at(1), three[1])
			require.False(t, waits.Done())
			err := wait(three[0].Issend(Of([]byte{1}), 1, 5))
			require.ErrorIs(t, err, x.is)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, []any{"issend", 2, 1, 5}, []any{e.Op, e.Rank, e.Peer, e.Tag})
			if name == "revoked" {
				require.True(t, three[0].Revoked())
				require.True(t, waits.Done())
				require.NoError(t, <-probed)
				err = three[0].Send(Of([]byte{1}), 1, 5)
				require.ErrorIs(t, err, ErrRevoked)
			} else {
				require.False(t, waits.Done(), "it is itself that the other one takes for lost")
			}
		})
	}
}

// The end of one rank's context is the death of that rank. Where the others survive, they are told
// why.
func TestContextOfOneRank(t *testing.T) {
	for _, survive := range []bool{true, false} {
		cfg := Config{Ranks: 3, Survive: survive}
		_, err := cfg.validate()
		require.NoError(t, err)
		eps, err := inproc.New(3)
		require.NoError(t, err)
		worlds, errs := make([]*world, 3), make([]error, 3)
		for r, ep := range eps {
			worlds[r] = newWorld(t.Context(), cfg, []fabric.Endpoint{isolated{ep}})
		}
		mine, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		waits := make(chan struct{})
		var wg sync.WaitGroup
		for r, w := range worlds {
			ctx := t.Context()
			if r == 1 {
				ctx = mine
			}
			wg.Go(func() {
				errs[r] = w.run(ctx, func(c *Comm) error {
					if r == 1 {
						close(waits)
						_, err := c.Recv(Of(make([]int, 1)), 0, 1)
						return err
					}
					if r == 0 {
						<-waits
						stop(errTest)
					}
					_, err := c.Recv(Of(make([]int, 1)), 1, 1)
					if survive && !errors.Is(err, ErrPeerLost) || !strings.Contains(err.Error(), errTest.Error()) {
						return fmt.Errorf("not told: %w", err)
					}
					if !survive {
						return err
					}
					return expectSlice("lost", []int{1}, c.Failed())
				})
			})
		}
		wg.Wait()
		require.ErrorIs(t, errs[1], errTest)
		for _, r := range []int{0, 2} {
			if survive {
				require.NoError(t, errs[r])
			} else {
				require.ErrorContains(t, errs[r], errTest.Error())
				require.NotContains(t, errs[r].Error(), "not told")
			}
		}
	}
}

// A Sendrecv whose send fails does not wait for its receive, and leaves none behind.
func TestSendrecvWhoseSendFails(t *testing.T) {
	for how, run := range runners {
		t.Run(how, func(t *testing.T) {
			err := run(t.Context(), Config{Ranks: 3, Survive: true}, func(c *Comm) error {
				one := make([]int, 1)
				switch c.Rank() {
				case 1:
					return errTest
				case 2:
					if _, err := c.Recv(Of(one), 0, 2); err != nil {
						return err
					}
					return c.Send(Of([]int{5}), 0, 1)
				}
				if _, err := c.Recv(Of(one), 1, 0); !errors.Is(err, ErrPeerLost) {
					return fmt.Errorf("not lost: %w", err)
				}
				if _, err := c.Sendrecv(Of([]int{3}), 1, 1, Of(one), 2, 1); !errors.Is(err, ErrPeerLost) {
					return fmt.Errorf("sendrecv: %w", err)
				}
				if err := c.Send(Of([]int{4}), 2, 2); err != nil {
					return err
				}
				got := make([]int, 1)
				if _, err := c.Recv(Of(got), 2, 1); err != nil {
					return err
				}
				return cmp.Or(expect("received", 5, got[0]), expect("by the sendrecv", 0, one[0]))
			})
			if how != "together" { // the error is rank 0's
				require.NoError(t, err)
				return
			}
			var of *RankError
			require.ErrorAs(t, err, &of)
			require.Equal(t, 1, of.Rank, "%v", err)
			require.ErrorIs(t, err, errTest)
		})
	}
}

// A queued message is not received in a communicator that is revoked, or was made of a revoked one,
// or in a run that is over.
func TestMessageAfterTheEnd(t *testing.T) {
	for way, run := range runners {
		for _, end := range []error{ErrRevoked, ErrAborted} {
			err := run(t.Context(), Config{Ranks: 2}, func(c *Comm) error {
				d, err := c.Dup()
				if err != nil {
					return err
				}
				e, err := d.Dup()
				if err != nil {
					return err
				}
				one := []int{7}
				if c.Rank() == 1 {
					return errors.Join(d.Send(Of(one), 0, 1), e.Send(Of(one), 0, 1), c.Barrier(), second(c.Recv(Of(one), 0, 9)))
				}
				if err := errors.Join(second(d.Probe(1, 1)), second(e.Probe(1, 1)), c.Barrier()); err != nil {
					return err
				}
				if end == ErrRevoked {
					d.Revoke()
				} else {
					c.Abort(errTest)
				}
				for _, err := range []error{second(d.Recv(Of(one), 1, 1)), second(e.Recv(Of(one), 1, 1)), wait(d.Irecv(Of(one), 1, 1)), wait(e.Irecv(Of(one), 1, 1))} {
					if !errors.Is(err, end) {
						return fmt.Errorf("%w where it is %w", err, end)
					}
				}
				return c.Send(Of(one), 1, 9)
			})
			if end == ErrRevoked {
				require.NoError(t, err, way)
			} else {
				require.ErrorIs(t, err, errTest, way)
				require.NotContains(t, err.Error(), "where it is", way)
			}
		}
	}
}

// A rank that has returned waits for the end of all ranks, whatever collective that is.
func TestDescribeAtTheEnd(t *testing.T) {
	w, all, _ := idle(t, 3, Config{})
	end := w.comm(1)
	end.ctx = leaveCtx
	for c, want := range map[*Comm]string{end: "the end of all ranks", all[1]: "rank 2 in barrier number 5, at rank 1 of communicator 0 (3 ranks)"} {
		op := &recvOp{c: c, expect: uint64(coll.Barrier)}
		op.entry.Key.Ctx, op.entry.Key.Src, op.entry.Key.Tag = c.ctx|1, 2, 5
		require.Equal(t, want, op.describe())
	}
}
