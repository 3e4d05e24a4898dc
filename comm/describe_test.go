// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/launch"
)

type called string

func (c called) String() string { return string(c) }

// Requests and waiting operations describe themselves, with peers, tags and wildcards.
func TestDescriptions(t *testing.T) {
	_, all, three := idle(t, 4, Config{})
	b := Of(make([]int32, 3))
	own, complete := NewRequestFor(called("a fence"))
	barrier := three[0].Ibarrier()
	for want, r := range map[string]*Request{
		"Irecv from rank 0, tag 0, at rank 1 of communicator 0 (4 ranks)":                  all[1].Irecv(b, 0, 0),
		"Irecv from rank 2, tag any, at rank 1 of communicator 0 (4 ranks)":                all[1].Irecv(b, 2, AnyTag),
		"Irecv from any rank, tag 7, at rank 2 of communicator 4294967300 (3 ranks)":       three[0].Irecv(b, AnySource, 7),
		"Issend of 12 bytes to rank 3, tag 7, from rank 1 of communicator 0 (4 ranks)":     all[1].Issend(b, 3, 7),
		"Isend of 1048576 bytes to rank 0, tag 7, from rank 1 of communicator 0 (4 ranks)": all[1].Isend(Of(make([]byte, 1<<20)), 0, 7),
		"a fence":             own,
		"a request, complete": all[1].Isend(b, ProcNull, 0),
	} {
		require.Equal(t, want, r.String())
	}
	require.Regexp(t, `^I?barrier at rank 2 of communicator 4294967300 \(3 ranks\)$`, barrier.String())
	require.False(t, own.Cancel())
	require.False(t, barrier.Cancel())
	s := all[1].Issend(b, 3, 8)
	require.False(t, s.Cancel())
	complete(nil)
	require.Equal(t, "a fence, complete", own.String())
	r := all[1].Irecv(b, 0, 5)
	require.True(t, r.Cancel())
	require.False(t, r.Cancel())
	require.Equal(t, "Irecv from rank 0, tag 5, at rank 1 of communicator 0 (4 ranks), complete", r.String())
	require.Equal(t, "an operation", methodName(""))

	all[2].DescribeBy(func(src, tag int) string {
		if tag == 1 {
			return "a window"
		}
		return ""
	})
	all[2].Irecv(b, 0, 1)
	all[2].Irecv(b, 0, 2)
	require.Equal(t, []string{"a window, at rank 2 of communicator 0 (4 ranks)"}, all[2].world.pending()[all[2].proc])
}

// Each error has its text, which names no rank and no package twice, and the errors that it wraps.
func TestErrors(t *testing.T) {
	p := &PanicError{Value: errTest, Stack: []byte("stack")}
	require.ErrorIs(t, p, errTest)
	require.EqualError(t, p, "panic: test\n\nstack")
	require.NoError(t, (&PanicError{Value: "x"}).Unwrap())
	for want, err := range map[string]error{
		"comm: send on rank 2, peer 3, tag 4: test":                     &Error{Op: "send", Rank: 2, Peer: 3, Tag: 4, Err: errTest},
		"comm: send, peer 3, tag 0: test":                               &Error{Op: "send", Rank: NoPeer, Peer: 3, Tag: 0, Err: errTest},
		"comm: recv on rank 0, any source, any tag: test":               &Error{Op: "recv", Rank: 0, Peer: AnySource, Tag: AnyTag, Err: errTest},
		"comm: bcast on rank 0, peer 0: test":                           &Error{Op: "bcast", Rank: 0, Peer: 0, Tag: NoPeer, Err: errTest},
		"comm: rank 2 is lost: test":                                    &RankError{2, &LostError{2, errTest}},
		"comm: rank 1: rank 2 is lost: test":                            &RankError{1, &LostError{2, errTest}},
		"comm: rank 2: send, peer 3: test":                              &RankError{2, &Error{Op: "send", Rank: 2, Peer: 3, Tag: NoPeer, Err: errTest}},
		"rank 2 is lost: reset: by peer":                                &LostError{2, errors.New("reset: rank 2: by peer")},
		"rank 2 is lost: reset: rank 3: by peer":                        &LostError{2, errors.New("reset: rank 3: by peer")},
		"rank 2 is lost: exit status 3":                                 &LostError{2, &launch.Death{Rank: 2, How: "exit status 3"}},
		"rank 2 is lost: " + (&launch.Death{Rank: 1, How: "x"}).Error(): &LostError{2, &launch.Death{Rank: 1, How: "x"}},
		"the run is aborted: rank 1: test":                              &abortError{&RankError{1, errTest}},
	} {
		require.EqualError(t, err, want)
	}
	a := &abortError{errTest}
	require.ErrorIs(t, a, ErrAborted)
	require.ErrorIs(t, a, errTest)
	require.True(t, a.EndsRun())
	require.ErrorIs(t, &RemoteError{"x: " + ErrMismatch.Error() + ": y"}, ErrMismatch)
	require.NotErrorIs(t, &RemoteError{"x"}, ErrMismatch)
	require.NotErrorIs(t, &RemoteError{ErrMismatch.Error()}, ErrType)
}

// The error of a bad peer or tag tells which are legal.
func TestTextsOfArguments(t *testing.T) {
	_, all, _ := idle(t, 4, Config{})
	for _, row := range []struct {
		err  error
		want string
	}{
		{all[0].checkPeer(AnySource, false), "no such rank: AnySource cannot be sent to"},
		{all[0].checkPeer(AnySource, true), ""}, {all[0].checkPeer(ProcNull, false), ""}, {all[0].checkPeer(ProcNull, true), ""},
		{all[0].checkPeer(3, false), ""}, {all[0].checkPeer(0, true), ""},
		{all[0].checkPeer(4, true), "no such rank: 4; this communicator has ranks 0 to 3"}, {all[0].checkPeer(-3, false), "no such rank: -3; this communicator has ranks 0 to 3"},
		{checkTag(AnyTag, false), "bad tag: AnyTag cannot be sent"}, {checkTag(AnyTag, true), ""}, {checkTag(0, false), ""}, {checkTag(TagUB, true), ""},
		{checkTag(-2, false), "bad tag: -2; tags are 0 to 2147483647"}, {checkTag(-2, true), "bad tag: -2; tags are 0 to 2147483647"}, {checkTag(TagUB+1, true), "bad tag: 2147483648; tags are 0 to 2147483647"},
	} {
		if row.want == "" {
			require.NoError(t, row.err)
		} else {
			require.EqualError(t, row.err, row.want)
		}
	}
}

// The cause of a run's end that others are told has the rank with which it began, whether that rank
// is lost, and a reason in one sentence, without a stack.
func TestRootOf(t *testing.T) {
	long := make([]byte, maxReason+1)
	for i := range long {
		long[i] = 'x'
	}
	for name, row := range map[string]struct {
		cause error
		rank  int
		lost  bool
		text  string
	}{
		"an error":            {errTest, 7, false, "test"},
		"of a rank":           {&RankError{2, errTest}, 2, false, "test"},
		"of a rank of a rank": {&RankError{2, &RankError{3, errTest}}, 3, false, "test"},
		"a loss":              {&RankError{2, &LostError{2, errTest}}, 2, true, "test"},
		"a loss of another":   {&RankError{2, &LostError{3, errTest}}, 3, true, "test"},
		"a death":             {&LostError{2, &launch.Death{Rank: 2, How: "exit status 3"}}, 2, true, "exit status 3"},
		"another's death":     {&LostError{2, &launch.Death{Rank: 1, How: "exit status 3"}}, 2, true, (&launch.Death{Rank: 1, How: "exit status 3"}).Error()},
		"a call's":            {&RankError{2, &Error{Op: "send", Rank: 2, Peer: 1, Tag: NoPeer, Err: errTest}}, 2, false, "send, peer 1: test"},
		"a call's elsewhere":  {&RankError{2, &Error{Op: "send", Rank: 0, Peer: 1, Tag: NoPeer, Err: errTest}}, 2, false, "send on rank 0, peer 1: test"},
		"a panic":             {&RankError{2, &PanicError{Value: "x", Stack: []byte("goroutine 1\nmain")}}, 2, false, "panic: x"},
		"a long one":          {errors.New(string(long)), 7, false, string(long[:maxReason])},
	} {
		rank, lost, text := rootOf(row.cause, 7)
		require.Equal(t, []any{row.rank, row.lost, row.text}, []any{rank, lost, text}, name)
	}
	require.Equal(t, &RankError{2, &RemoteError{"x"}}, remoteCause(2, false, "x"))
	require.Equal(t, &RankError{2, &LostError{2, &RemoteError{"x"}}}, remoteCause(2, true, "x"))
}

// The contexts of communicators are even and above those that this package reserves. No two are
// equal, until a rank has made 2^31 of them.
func TestContexts(t *testing.T) {
	w, _, _ := idle(t, 4, Config{})
	seen := map[uint64]bool{}
	numbers := map[uint32]bool{}
	for r := range 3 {
		for range 100 {
			ctx := w.at(r).newContext()
			require.Zero(t, ctx&1)
			require.GreaterOrEqual(t, ctx, uint64(1<<32))
			require.False(t, seen[ctx])
			seen[ctx] = true
			number := (&Comm{ctx: ctx}).TraceID()
			require.False(t, numbers[number])
			numbers[number] = true
		}
	}
	w.at(3).made.Store(math.MaxInt32 - 1)
	require.Equal(t, uint64(4<<32|math.MaxInt32<<1), w.at(3).newContext())
	require.PanicsWithValue(t, "comm: more than 2^31 communicators made by one rank", func() { w.at(3).newContext() })
	require.NoError(t, context.Cause(w.ctx))
}
