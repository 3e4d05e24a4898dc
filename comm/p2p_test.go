// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func requireIs(err, target error) bool { return errors.Is(err, target) }

// Every way to send is combined with every way to receive: early or late, small or large, to
// oneself or not.
func TestMessages(t *testing.T) {
	for _, n := range []int{0, 1, 100, 10000} {
		for _, late := range []bool{false, true} {
			for _, way := range []string{"send", "ssend", "isend", "issend"} {
				t.Run(fmt.Sprintf("%s of %d, late %v", way, n, late), func(t *testing.T) {
					run(t, 2, func(c *Comm) error { return checkMessage(c, way, n, late) })
				})
			}
		}
	}
}

func checkMessage(c *Comm, way string, n int, late bool) error {
	const tag = 7
	if c.Rank() == 0 {
		if !late { // the receive is posted
			if _, err := c.Recv(Buffer{}, 1, tag+1); err != nil {
				return err
			}
		}
		in := Of(inputs(0, n))
		switch way {
		case "send":
			return c.Send(in, 1, tag)
		case "ssend":
			return c.Ssend(in, 1, tag)
		case "isend":
			return WaitAll(context.Background(), c.Isend(in, 1, tag))
		}
		return WaitAll(context.Background(), c.Issend(in, 1, tag))
	}
	out := make([]int64, n)
	if late {
		if _, err := c.Probe(0, tag); err != nil { // the message is here
			return err
		}
	}
	r := c.Irecv(Of(out), AnySource, tag)
	if !late {
		if err := c.Send(Buffer{}, 0, tag+1); err != nil {
			return err
		}
	}
	st, err := r.Wait(context.Background())
	if err != nil {
		return err
	}
	return cmp.Or(expect("status", Status{Source: 0, Tag: tag, Bytes: 8 * n}, st), expectSlice("data", inputs(0, n), out))
}

// A synchronous send, and a large one, returns after its receive is there: any fabric, any size.
func TestSendsWaitForTheirReceive(t *testing.T) {
	ways := maps.Clone(runners)
	ways["tcp"] = runTCP
	for how, run := range ways {
		var posted atomic.Int64 // receives that have been called
		require.NoError(t, run(context.Background(), Config{Ranks: 2}, func(c *Comm) error {
			turns := int64(0)
			for _, size := range []int{0, 1, smallLen, smallLen + 1, 1000, 20000, 1 << 20} {
				for _, way := range []string{"ssend", "issend", "send"} {
					if way == "send" && size < 1<<20 {
						continue
					}
					turns++
					m := make([]byte, size)
					if c.Rank() == 1 {
						_, err := c.Probe(0, 0)
						for range 3 { // the send would return in this time
							err = cmp.Or(err, c.Send(Buffer{}, 0, 1))
							_, err2 := c.Recv(Buffer{}, 0, 1)
							err = cmp.Or(err, err2)
						}
						posted.Store(turns)
						_, err2 := c.Recv(Of(m), 0, 0)
						if err := cmp.Or(err, err2, expectSlice("data", bytes.Repeat([]byte{byte(turns)}, size), m)); err != nil {
							return err
						}
						continue
					}
					for i := range m {
						m[i] = byte(turns)
					}
					sent := make(chan error, 1)
					go func() {
						var err error
						switch way {
						case "ssend":
							err = c.Ssend(Of(m), 1, 0)
						case "issend":
							_, err = c.Issend(Of(m), 1, 0).Wait(context.Background())
						default:
							err = c.Send(Of(m), 1, 0)
						}
						sent <- cmp.Or(err, expect(fmt.Sprintf("receives when %s of %d bytes is over", way, size), turns, posted.Load()))
					}()
					var err error
					for range 3 {
						_, err2 := c.Recv(Buffer{}, 1, 1)
						err = cmp.Or(err, err2, c.Send(Buffer{}, 1, 1))
					}
					if err := cmp.Or(err, <-sent); err != nil {
						return err
					}
				}
			}
			return nil
		}), how)
		requireNoRankGoroutines(t)
	}
}

func TestSelfMessages(t *testing.T) {
	run(t, 1, func(c *Comm) error {
		for _, n := range []int{1, 100000} {
			in, out := inputs(3, n), make([]int64, n)
			st, err := c.Sendrecv(Of(in), 0, 4, Of(out), AnySource, AnyTag)
			if err != nil {
				return err
			}
			if err := cmp.Or(expect("tag", 4, st.Tag), expectSlice("data", in, out)); err != nil {
				return err
			}
		}
		return nil
	})
}

// A message to ProcNull goes nowhere, and a receive from ProcNull gets nothing; the other half of a
// Sendrecv is done.
func TestProcNull(t *testing.T) {
	run(t, 1, func(c *Comm) error {
		b := Of([]int{1})
		null := Status{Source: ProcNull, Tag: AnyTag}
		if err := cmp.Or(c.Send(b, ProcNull, 0), c.Ssend(b, ProcNull, 0), WaitAll(context.Background(), c.Isend(b, ProcNull, 0))); err != nil {
			return err
		}
		st, err := c.Recv(b, ProcNull, 0)
		if err := cmp.Or(err, expect("recv", null, st)); err != nil {
			return err
		}
		st, err = c.Sendrecv(b, ProcNull, 0, b, ProcNull, 0)
		if err := cmp.Or(err, expect("sendrecv", null, st)); err != nil {
			return err
		}
		st, err = c.Probe(ProcNull, AnyTag)
		if err := cmp.Or(err, expect("probe", null, st)); err != nil {
			return err
		}
		here, st, err := c.Iprobe(ProcNull, AnyTag)
		if err := cmp.Or(err, expect("iprobe", true, here), expect("iprobed", null, st)); err != nil {
			return err
		}
		st, err = c.Irecv(b, ProcNull, 3).Wait(context.Background())
		if err := cmp.Or(err, expect("irecv", null, st), WaitAll(context.Background(), c.Issend(b, ProcNull, 0))); err != nil {
			return err
		}
		in, out := []int{7}, []int{0, 5}
		for _, half := range []struct{ dst, src int }{{0, ProcNull}, {ProcNull, 0}} {
			// the second rank has what the first sends
			want := null
			if half.src == 0 {
				want = Status{Source: 0, Tag: 4, Bytes: 8}
			}
			st, err := c.Sendrecv(Of(in), half.dst, 4, Of(out), half.src, AnyTag)
			if err := cmp.Or(err, expect("sendrecv", want, st)); err != nil {
				return err
			}
		}
		here, st, err = c.Iprobe(AnySource, AnyTag)
		return cmp.Or(err, expectSlice("data", []int{7, 5}, out), expect(fmt.Sprintf("left over: %+v", st), false, here))
	})
}

// The error of a Sendrecv is that of its receive, with the status of the message, and the sent
// message arrives all the same.
func TestSendrecvErrors(t *testing.T) {
	run(t, 2, func(c *Comm) error {
		for _, n := range []int{2, 100, 20000} {
			for _, x := range []struct {
				into Buffer
				want error
			}{{Of(make([]int64, n-1)), ErrTruncated}, {Of(make([]float64, n)), ErrType}, {Of(make([]int64, n+1)), nil}} {
				peer := 1 - c.Rank()
				if c.Rank() == 1 {
					x.into, x.want = Of(make([]int64, n)), nil
				}
				st, err := c.Sendrecv(Of(inputs(c.Rank(), n)), peer, n, x.into, peer, n)
				var e *Error
				if !errors.Is(err, x.want) || x.want != nil && (!errors.As(err, &e) || e.Op != "sendrecv" || e.Peer != peer || e.Tag != n) {
					return fmt.Errorf("%d elements: %w, want %w", n, err, x.want)
				}
				got := make([]int64, x.into.Bytes()/8)
				if x.want != ErrType {
					Copy(Of(got), x.into)
				}
				if err := expect("status", Status{Source: peer, Tag: n, Bytes: 8 * n}, st); err != nil {
					return err
				}
				if k := min(n, len(got)); x.want != ErrType {
					if err := expectSlice("data", inputs(peer, n)[:k], got[:k]); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

// Each call refuses each argument that it cannot use, with an error that names the call, the peer
// and the tag, and does nothing else.
func TestArguments(t *testing.T) {
	type withPointer struct {
		A int
		B struct{ P *int }
	}
	ok := Of([]int{1})
	run(t, 2, func(c *Comm) error {
		wait := func(r *Request) error {
			_, err := r.Wait(context.Background())
			return err
		}
		iprobe := func(src, tag int) error {
			here, st, err := c.Iprobe(src, tag)
			return cmp.Or(err, expect("here", false, here), expect("status", Status{}, st))
		}
		second := func(_ Status, err error) error { return err }
		for _, call := range []struct {
			name   string
			do     func(b Buffer, peer, tag int) error
			sends  bool
			probes bool
		}{
			{"send", c.Send, true, false},
			{"ssend", c.Ssend, true, false},
			{"isend", func(b Buffer, peer, tag int) error { return wait(c.Isend(b, peer, tag)) }, true, false},
			{"issend", func(b Buffer, peer, tag int) error { return wait(c.Issend(b, peer, tag)) }, true, false},
			{"recv", func(b Buffer, peer, tag int) error { return second(c.Recv(b, peer, tag)) }, false, false},
			{"irecv", func(b Buffer, peer, tag int) error { return wait(c.Irecv(b, peer, tag)) }, false, false},
			{"sendrecv", func(b Buffer, peer, tag int) error { return second(c.Sendrecv(b, peer, tag, ok, 0, 0)) }, true, false},
			{"sendrecv", func(b Buffer, peer, tag int) error { return second(c.Sendrecv(ok, 0, 0, b, peer, tag)) }, false, false},
			{"probe", func(_ Buffer, peer, tag int) error { return second(c.Probe(peer, tag)) }, false, true},
			{"iprobe", func(_ Buffer, peer, tag int) error { return iprobe(peer, tag) }, false, true},
		} {
			for _, x := range []struct {
				what      string
				b         Buffer
				peer, tag int
				want      error
				may       bool // the call accepts this
			}{
				{"rank above", ok, 2, 0, ErrRank, false},
				{"rank below", ok, -3, 0, ErrRank, false},
				{"any rank", ok, AnySource, 0, ErrRank, !call.sends},
				{"negative tag", ok, 1, -5, ErrTag, false},
				{"any tag", ok, 1, AnyTag, ErrTag, !call.sends},
				{"tag above", ok, 1, TagUB + 1, ErrTag, false},
				{"tag above to ProcNull", ok, ProcNull, TagUB + 1, ErrTag, false},
				{"pointers", Of([]withPointer{{}}), 1, 0, ErrType, call.probes},
				{"strings", Of([]string{""}), 1, 0, ErrType, call.probes},
				{"vector outside", Vector([]int{1, 2, 3, 4}, 2, 2, 3), 1, 0, ErrBuffer, call.probes},
				{"vector overlapping", Vector([]int{1, 2, 3, 4}, 2, 2, 1), 1, 0, ErrBuffer, call.probes},
				{"negative vector", Vector([]int{1, 2, 3, 4}, -1, 2, 1), 1, 0, ErrBuffer, call.probes},
			} {
				if x.may {
					continue
				}
				err := call.do(x.b, x.peer, x.tag)
				var e *Error
				if !errors.Is(err, x.want) || !errors.As(err, &e) || *e != (Error{Op: call.name, Rank: c.Rank(), Peer: x.peer, Tag: x.tag, Err: e.Err}) {
					return fmt.Errorf("%s with %s: %v, want %v", call.name, x.what, err, x.want)
				}
			}
			if call.name != "sendrecv" {
				if err := call.do(ok, ProcNull, TagUB); err != nil && call.name != "iprobe" {
					// it tells that the message is here
					return err
				}
			}
		}
		if err := c.Barrier(); err != nil {
			return err
		}
		return iprobe(AnySource, AnyTag)
	})
}

func TestTruncationAndTypes(t *testing.T) {
	for _, n := range []int{4, 10000} { // eager, rendezvous
		for _, late := range []bool{false, true} {
			run(t, 2, func(c *Comm) error {
				if c.Rank() == 0 {
					var reqs []*Request
					for tag := range 4 {
						reqs = append(reqs, c.Isend(Of(inputs(0, n)), 1, tag))
					}
					return WaitAll(context.Background(), append(reqs, c.Isend(Buffer{}, 1, 9))...)
				}
				if late {
					if _, err := c.Probe(0, 9); err != nil {
						return err
					}
				}
				short := make([]int64, n-1)
				st, err := c.Recv(Of(short), 0, 0)
				if !errors.Is(err, ErrTruncated) {
					return fmt.Errorf("truncated: %v", err)
				}
				if err := cmp.Or(expect("full size", 8*n, st.Bytes), expectSlice("what fits", inputs(0, n-1), short)); err != nil {
					return err
				}
				floats := make([]float64, n)
				st, err = c.Recv(Of(floats), 0, 1)
				if !errors.Is(err, ErrType) {
					return fmt.Errorf("floats for ints: %v", err)
				}
				if err := cmp.Or(expect("size", 8*n, st.Bytes), expect("untouched", 0.0, floats[0])); err != nil {
					return err
				}
				raw := make([]byte, 8*n)
				if _, err := c.Recv(Of(raw), 0, 2); err != nil {
					return err
				}
				ints := make([]int, n) // the same kind on 64-bit machines
				if Of(ints).Kind() == Int64 {
					if _, err := c.Recv(Of(ints), 0, 3); err != nil {
						return err
					}
				}
				_, err = c.Recv(Buffer{}, 0, 9)
				return cmp.Or(err, expect("as bytes", byte(1000&0xff), raw[0]))
			})
		}
	}
}

func TestStridedMessages(t *testing.T) {
	for _, rows := range []int{5, 5000} {
		for _, block := range []int{1, 3} {
			run(t, 2, func(c *Comm) error {
				const width = 8
				m := make([]float64, rows*width)
				col := Vector(m[2:], rows, block, width)
				if c.Rank() == 0 {
					for i := range m {
						m[i] = float64(i)
					}
					r := c.Isend(col, 1, 0)
					return cmp.Or(c.Send(col, 1, 1), c.Ssend(col, 1, 2), WaitAll(context.Background(), r))
				}
				packed := make([]float64, rows*block)
				if _, err := c.Recv(col, 0, 0); err != nil { // strided to strided
					return err
				}
				if _, err := c.Recv(Of(packed), 0, 1); err != nil { // strided to contiguous
					return err
				}
				m2 := make([]float64, 2*rows*block) // to another stride
				if _, err := c.Recv(Vector(m2, rows*block, 1, 2), 0, 2); err != nil {
					return err
				}
				for i := range m {
					want := 0.0
					if j := i % width; j >= 2 && j < 2+block {
						want = float64(i)
						k := i/width*block + j - 2
						if err := cmp.Or(expect("packed", want, packed[k]), expect("restrided", want, m2[2*k]), expect("gap", 0.0, m2[2*k+1])); err != nil {
							return err
						}
					}
					if err := expect(fmt.Sprint("cell ", i), want, m[i]); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
}

// Messages do not overtake each other, whatever the receives name, and however large they are.
func TestOrder(t *testing.T) {
	run(t, 2, func(c *Comm) error {
		const n = 200
		size := func(i int) int { return 1 + (i%3)*3000 }
		if c.Rank() == 0 {
			var reqs []*Request
			for i := range n {
				b := make([]int, size(i))
				b[0] = i
				reqs = append(reqs, c.Isend(Of(b), 1, i%2))
			}
			return WaitAll(context.Background(), reqs...)
		}
		next := [2]int{0, 1}
		for i := range n {
			src, tag := 0, AnyTag
			switch i % 4 {
			case 1:
				src = AnySource
			case 2:
				tag = i / 4 % 2
			case 3:
				src, tag = AnySource, i/4%2
			}
			if tag != AnyTag && next[tag] >= n {
				tag = 1 - tag
			}
			b := make([]int, 6001)
			st, err := c.Recv(Of(b), src, tag)
			if err != nil {
				return err
			}
			want := next[st.Tag]
			if tag == AnyTag {
				want = min(next[0], next[1]) // the oldest of all
			}
			if err := cmp.Or(expect("message", want, b[0]), expect("size", 8*size(want), st.Bytes)); err != nil {
				return err
			}
			next[st.Tag] += 2
		}
		return nil
	})
}

func TestProbe(t *testing.T) {
	run(t, 2, func(c *Comm) error {
		if c.Rank() == 0 {
			if _, err := c.Recv(Buffer{}, 1, 0); err != nil {
				return err
			}
			return cmp.Or(c.Send(Of([]int32{1, 2}), 1, 3), c.Send(Of([]int32{3}), 1, 4))
		}
		ok, _, err := c.Iprobe(AnySource, AnyTag)
		if err := cmp.Or(err, expect("iprobe before", false, ok), c.Send(Buffer{}, 0, 0)); err != nil {
			return err
		}
		st, err := c.Probe(AnySource, AnyTag)
		if err := cmp.Or(err, expect("probed", Status{0, 3, 8, false}, st), expect("count", 2, st.Count(4))); err != nil {
			return err
		}
		st, err = c.Probe(0, 4)
		if err := cmp.Or(err, expect("probed", Status{0, 4, 4, false}, st)); err != nil {
			return err
		}
		ok, st, err = c.Iprobe(0, AnyTag)
		if err := cmp.Or(err, expect("iprobe", true, ok), expect("iprobed", 3, st.Tag)); err != nil {
			return err
		}
		b := make([]int32, 2)
		_, err = c.Recv(Of(b), 0, 4)
		_, err2 := c.Recv(Of(b), 0, 3)
		ok, _, err3 := c.Iprobe(AnySource, AnyTag)
		return cmp.Or(err, err2, err3, expect("iprobe at the end", false, ok), expectSlice("data", []int32{1, 2}, b))
	})
}

// Large messages in opposite directions at the same time.
func TestExchange(t *testing.T) {
	run(t, 4, func(c *Comm) error {
		const n = 30000
		right, left := (c.Rank()+1)%4, (c.Rank()+3)%4
		in, out := inputs(c.Rank(), n), make([]int64, n)
		for range 20 {
			clear(out)
			if _, err := c.Sendrecv(Of(in), right, 1, Of(out), left, 1); err != nil {
				return err
			}
			if err := expectSlice("data", inputs(left, n), out); err != nil {
				return err
			}
		}
		// Opposite orders of posting and sending.
		r := c.Irecv(Of(out), right, 2)
		s := c.Isend(Of(in), left, 2)
		if c.Rank()%2 == 0 {
			r, s = s, r
		}
		return cmp.Or(WaitAll(context.Background(), r), WaitAll(context.Background(), s), expectSlice("data", inputs(right, n), out))
	})
}

func TestEagerLimit(t *testing.T) {
	for _, limit := range []int{-1, 1 << 30} {
		require.NoError(t, Run(context.Background(), Config{Ranks: 2, EagerLimit: limit}, func(c *Comm) error {
			if c.Rank() == 0 {
				r := c.Isend(Of([]int{7}), 1, 0)
				big := c.Isend(Of(make([]int, 100000)), 1, 1)
				if limit > 0 {
					if err := cmp.Or(expect("eager", true, r.Done()), expect("big eager", true, big.Done())); err != nil {
						return err
					}
				}
				return WaitAll(context.Background(), r, big)
			}
			if _, err := c.Probe(0, 1); err != nil {
				return err
			}
			b := make([]int, 100000)
			if _, err := c.Recv(Of(b), 0, 0); err != nil {
				return err
			}
			_, err := c.Recv(Of(b), 0, 1)
			return err
		}))
	}
}

// Large messages between blocked calls are copied by both sides, whichever comes first, and
// whatever pieces the receive has.
func TestLargeMessages(t *testing.T) {
	run(t, 3, func(c *Comm) error {
		const n = 70000 // 560 kB
		right, left := (c.Rank()+1)%3, (c.Rank()+2)%3
		in, out := inputs(c.Rank(), n), make([]int64, n)
		for i := range 12 {
			in[0], in[n-1], in[n/2] = int64(i), int64(i), int64(i)
			want := inputs(left, n)
			want[0], want[n-1], want[n/2] = int64(i), int64(i), int64(i)
			clear(out)
			var err error
			size := n
			switch {
			case i%3 == 0:
				_, err = c.Sendrecv(Of(in), right, i, Of(out), left, i)
			case c.Rank() == i%3:
				err = c.Send(Of(in), right, i)
				if err == nil {
					_, err = c.Recv(Of(out), left, i)
				}
			default:
				size = n - i
				var st Status
				st, err = c.Recv(Of(out[:size]), left, i)
				if errors.Is(err, ErrTruncated) && st.Bytes == 8*n {
					err = c.Send(Of(in), right, i)
				} else {
					err = errors.Join(errors.New("no truncation"), err)
				}
			}
			in[0] = -1 // the memory is free again
			if err := cmp.Or(err, expectSlice("data", want[:size], out[:size])); err != nil {
				return err
			}
		}
		return nil
	})
}

// A blocking receive gives its rank's own operation back, and the next one takes it again.
func TestOwnReceiveIsUsedAgain(t *testing.T) {
	for how, run := range runners {
		require.NoError(t, run(t.Context(), Config{Ranks: 2}, func(c *Comm) error {
			const n = 5
			own := c.proc.own
			before := own.taken
			for i := range n {
				if c.Rank() == 0 {
					if err := c.Send(Of([]int{i}), 1, 0); err != nil {
						return err
					}
					continue
				}
				got := make([]int, 1)
				_, err := c.Recv(Of(got), 0, 0)
				freed := expect("given back", own.taken, own.freed.Load())
				if err := cmp.Or(err, expect("received", i, got[0]), freed); err != nil {
					return err
				}
			}
			if c.Rank() != 1 || how == "apart, shm" { // there the caller may receive directly
				return nil
			}
			return expect("taken", before+n, own.taken)
		}), how)
	}
}
