// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"

	"weft/comm/internal/coll"
	"weft/comm/internal/wire"

	"github.com/stretchr/testify/require"
)

// bcastOf is the signature of a broadcast with a root, so that different roots differ.
func bcastOf(root int) coll.Signature {
	return coll.NewSignature(coll.NewCollective(coll.Bcast, nil, root), 0, 8)
}

// toldBy is the question of rank 1, which has made count collectives and differs from number odd
// on; 0: it does not differ.
func toldBy(count, odd uint64) coll.Question {
	q := coll.Question{From: 1, Count: count}
	for n := count - min(count, coll.HistoryLen) + 1; n <= count; n++ {
		q.Last = append(q.Last, bcastOf(btoi(odd > 0 && n >= odd)))
	}
	return q
}

// Two ranks' histories are compared as far as both remember: the first collective that differs is
// found, at each bound of the memory. Collectives that this rank has not begun are compared when it
// begins them.
func TestHistoriesAreCompared(t *testing.T) {
	for _, row := range []struct {
		mine, theirs, odd uint64
		found             uint64 // the number; 0: none
		later             bool   // found only after this rank has made as many
	}{
		{1, 1, 0, 0, false}, {1, 1, 1, 1, false}, {2, 2, 1, 1, false}, {2, 2, 2, 2, false}, {3, 2, 2, 2, false},
		{16, 16, 1, 1, false}, {17, 16, 1, 2, false}, {17, 16, 16, 16, false}, {17, 17, 1, 2, false},
		{20, 5, 5, 5, false}, {20, 4, 4, 0, false}, {20, 4, 0, 0, false},
		{0, 1, 1, 1, true}, {1, 2, 2, 2, true}, {1, 3, 3, 3, true}, {1, 2, 0, 0, true}, {2, 5, 2, 2, false}, {4, 40, 25, 25, true},
	} {
		t.Run(fmt.Sprintf("%+v", row), func(t *testing.T) {
			ep, c := withNeighbours(t, false)
			h := c.hist
			made := func() { h.Record(&coll.Call{What: coll.NewCollective(coll.Bcast, nil, 0), Unit: 8}, 0) }
			for range row.mine {
				made()
				h.compareIfBehind()
			}
			wrong := func() *disagreement {
				if d := c.disagreement(c.proc.failure.Load()); d != nil {
					return d
				}
				return nil
			}
			h.compare(toldBy(row.theirs, row.odd))
			if row.later {
				require.Nil(t, wrong())
				require.True(t, h.Behind())
				h.compare(toldBy(row.theirs, row.odd)) // again: it replaces the question
				for h.Count() < row.theirs {
					made()
					h.compareIfBehind()
				}
			}
			require.False(t, h.Behind())
			if row.found == 0 {
				require.Nil(t, wrong())
				require.Empty(t, ep.take())
				return
			}
			require.NotNil(t, wrong())
			require.ErrorIs(t, wrong().err, ErrMismatch)
			require.ErrorContains(t, wrong().err, fmt.Sprintf("number %d of the communicator: rank 0 is in bcast (root 0) of 8 bytes, rank 1 is in bcast (root 1) of 8 bytes", row.found))
			sent := ep.take()
			require.Len(t, sent, 2, "the others hear of it")
			for i, f := range sent {
				require.Equal(t, i+1, f.dst)
				require.Equal(t, []uint64{0, row.found, 1, wire.Disagreeing.Word(), 0}, f.Head[:5])
				d, err := disagreementOf(&f.Frame)
				require.NoError(t, err)
				require.EqualError(t, d.err, wrong().err.Error())
			}
		})
	}
}

// A rank whose question is certain has seen a difference that may be forgotten by now.
func TestCertainQuestion(t *testing.T) {
	_, c := withNeighbours(t, false)
	q := toldBy(3, 0)
	q.Certain = true
	for range 3 {
		c.hist.Record(&coll.Call{What: coll.NewCollective(coll.Bcast, nil, 0), Unit: 8}, 0)
	}
	c.hist.compare(q)
	require.EqualError(t, c.disagreement(c.proc.failure.Load()).err, ErrMismatch.Error()+": ranks 0 and 1 have made different collectives before number 1")
}

// A rank that has returned lacks the collective that another rank has made, unless it has committed
// to more, or a failure explains it.
func TestMissingCollectives(t *testing.T) {
	for name, row := range map[string]struct {
		before func(c *Comm)
		says   string
	}{
		"one":              {func(c *Comm) { c.hist.compare(toldBy(1, 0)) }, "number 1 of the communicator: rank 1 is in bcast (root 0) of 8 bytes, rank 0 has returned"},
		"many":             {func(c *Comm) { c.hist.compare(toldBy(40, 0)) }, "number 25 of the communicator: rank 1 is in bcast (root 0) of 8 bytes, rank 0 has returned"},
		"the second":       {func(c *Comm) { c.hist.Note(coll.Kind(coll.Bcast)); c.hist.compare(toldBy(2, 2)) }, ""},
		"none":             {func(c *Comm) {}, ""},
		"it will":          {func(c *Comm) { c.hist.compare(toldBy(1, 0)); c.Later(1) }, ""},
		"it has":           {func(c *Comm) { c.hist.compare(toldBy(1, 0)); c.Later(1); c.Later(-1) }, "number 1 of"},
		"it is revoked":    {func(c *Comm) { c.hist.compare(toldBy(1, 0)); c.proc.revoke(0) }, ""},
		"a member is lost": {func(c *Comm) { c.hist.compare(toldBy(1, 0)); c.proc.markLost(2, errTest) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := withNeighbours(t, true)
			row.before(c)
			c.hist.missing()
			d := c.disagreement(c.proc.failure.Load())
			if row.says == "" {
				if name != "the second" {
					require.Nil(t, d)
				}
				return
			}
			require.NotNil(t, d)
			require.ErrorContains(t, d.err, row.says)
			require.Positive(t, d.from)
		})
	}
}

// Questions about histories travel in frames, both ways, and are answered if asked to.
func TestQuestionScript(t *testing.T) {
	for _, count := range []int{0, 1, coll.HistoryLen - 1, coll.HistoryLen, coll.HistoryLen + 1} {
		ep, c := withNeighbours(t, false)
		for i := range count {
			c.hist.Record(&coll.Call{What: coll.NewCollective(coll.Bcast, nil, i%3), Unit: 8 * i}, 0)
		}
		for flags := range uint64(4) {
			c.ask(2, flags&askCertain != 0, flags&askAnswer != 0)
			sent := ep.take()
			require.Len(t, sent, 1)
			require.Equal(t, 2, sent[0].dst)
			require.Equal(t, []uint64{0, 0, uint64(count), wire.Comparing.Word() | flags}, sent[0].Head[:4])
			require.Len(t, sent[0].Data, min(count, coll.HistoryLen)*coll.SignatureBytes)
			for k, b := 0, sent[0].Data; len(b) > 0; k, b = k+1, b[coll.SignatureBytes:] {
				i := max(0, count-coll.HistoryLen) + k
				require.Equal(t, coll.NewSignature(coll.NewCollective(coll.Bcast, nil, i%3), 0, 8*i), coll.SignatureOf(b))
			}
		}
	}
	ep, c := withNeighbours(t, false)
	q := frameOf(wire.Comparing, coll.SignatureBytes, 0, 1, 1)
	c.proc.hear(1, q)
	require.Empty(t, ep.take(), "it is compared later, and no answer is awaited")
	require.True(t, c.hist.Behind())
	q.Head[3] |= askAnswer
	c.proc.hear(1, q)
	sent := ep.take()
	require.Len(t, sent, 1)
	require.Equal(t, frameOf(wire.Answering, 0).Head, sent[0].Head)
	require.Nil(t, c.disagreement(c.proc.failure.Load()))
	c.proc.ended.Store(true) // now both have returned
	c.proc.hear(1, q)
	require.Nil(t, c.disagreement(c.proc.failure.Load()), "it may be the last barrier")
	_, c = withNeighbours(t, true) // here no last barrier compares
	c.proc.ended.Store(true)
	c.proc.hear(1, q)
	require.ErrorContains(t, c.disagreement(c.proc.failure.Load()).err, "rank 0 has returned")

	ep, c = withNeighbours(t, false)
	// of a communicator that this rank does not have
	q = frameOf(wire.Comparing, coll.SignatureBytes, 9<<1, 1, 1)
	q.Head[3] |= askCertain
	c.proc.hear(1, q)
	sent = ep.take()
	require.Len(t, sent, 1, "no rank has it any more")
	d, err := disagreementOf(&sent[0].Frame)
	require.NoError(t, err)
	require.EqualError(t, d.err, ErrMismatch.Error()+": rank 0 has made other collectives before number 1 of the communicator")
	require.Empty(t, c.proc.comms.Add(9<<1, new(Comm)), "the question does not wait")
}

// A new communicator answers the questions that were asked about it before.
func TestCommunicatorsAreKnown(t *testing.T) {
	ep, c := withNeighbours(t, false)
	p := c.proc
	require.Same(t, c, p.findComm(0, nil))
	require.Same(t, c, p.findComm(leaveCtx, nil))
	d := c.sub([]int{0, 1}, 100)
	q := toldBy(1, 0)
	require.Nil(t, p.findComm(d.ctx, &q))
	p.addComm(d)
	require.True(t, d.hist.Behind())
	require.Same(t, d, p.findComm(d.ctx, nil))
	require.Empty(t, ep.take())
}

// Communicators that are made of a communicator are revoked with it, and those that it is made of
// are not.
func TestRevocationOfDescendants(t *testing.T) {
	const levels = 4
	for at := range levels {
		require.NoError(t, Run(t.Context(), Config{Ranks: 2}, func(c *Comm) error {
			all := []*Comm{c}
			for i := 1; i < levels; i++ {
				var d *Comm
				var err error
				if i%2 == 0 {
					d, err = all[i-1].Split(0, -c.Rank())
				} else {
					d, err = all[i-1].Dup()
				}
				if err != nil {
					return err
				}
				all = append(all, d)
			}
			if err := all[levels-1].Barrier(); err != nil {
				return err
			}
			if c.Rank() == 0 {
				all[at].Revoke()
			} else {
				for !all[at].Revoked() {
					_, _, _ = all[at].Iprobe(0, 0)
				}
			}
			for i, d := range all {
				if err := expect(fmt.Sprintf("revocation of %d by that of %d", i, at), i >= at, d.Revoked()); err != nil {
					return err
				}
			}
			s, err := all[levels-1].Shrink(context.Background())
			if err != nil {
				return err
			}
			return cmp.Or(expect("revoked", false, s.Revoked()), expect("known", s, c.proc.findComm(s.ctx, nil)), s.Barrier())
		}))
	}
}

// Goroutines that commit to collectives of one communicator, and begin them, lose none.
func TestLaterHammer(t *testing.T) {
	const goroutines, rounds = 4, 200_000
	_, all, _ := idle(t, 3, Config{})
	h := all[0].hist
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range rounds {
				all[0].Later(2)
				all[0].Later(-1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, goroutines*rounds, h.notBegun.Load())
}
