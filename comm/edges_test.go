// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm/internal/coll"
	"weft/comm/internal/smcoll"
	"weft/internal/vec"
)

// Each collective has the right result with parts of one element less than each size at which the
// algorithm changes, of exactly that size, and of one more, with each root.
func TestCollectivesAroundThresholds(t *testing.T) {
	small := []int{smcoll.DataMax, smcoll.DataMax, coll.SmallPart / 4, coll.SmallPart}
	large := []int{(4 << 10), coll.LargeSum, coll.LargeCast, (256 << 10)}
	for how, run := range runners {
		for ranks := 2; ranks <= 5; ranks++ {
			t.Run(fmt.Sprintf("%s, %d ranks", how, ranks), func(t *testing.T) {
				require.NoError(t, run(t.Context(), Config{Ranks: ranks}, func(c *Comm) error {
					if how == "together" && c.member == nil {
						return errors.New("ranks of one process have no shared memory")
					}
					around := func(n int) error {
						return cmp.Or(checkCollectives(c, n-1), checkCollectives(c, n), checkCollectives(c, n+1))
					}
					for _, size := range small {
						if err := cmp.Or(around(size/8), around(size/8/ranks)); err != nil {
							return fmt.Errorf("%d bytes: %w", size, err)
						}
					}
					for i := 0; i < len(large) && ranks == 3; i++ { // more ranks do what three do
						if err := around(large[i] / 8); err != nil {
							return fmt.Errorf("%d bytes: %w", large[i], err)
						}
					}
					return nil
				}))
			})
		}
	}
}

// reductions compares every reduction of n elements of a type with a naive one, by one operator.
func reductions[T vec.Number](c *Comm, n int, op Op, naive func(a, b T) T) error {
	of := func(r, i int) T { return element[T]((r*7+i*3)%11 - 5) }
	in, all, upTo, out := make([]T, n), make([]T, n), make([]T, n), make([]T, n)
	for i := range in {
		in[i], all[i] = of(c.Rank(), i), of(0, i)
		upTo[i] = all[i]
		for r := 1; r < c.Size(); r++ {
			if all[i] = naive(all[i], of(r, i)); r <= c.Rank() {
				upTo[i] = all[i]
			}
		}
	}
	what := fmt.Sprintf(" (%v) of %d %T", op, n, in[0])
	if err := cmp.Or(c.Allreduce(Of(in), Of(out), op), expectSlice("allreduce"+what, all, out)); err != nil {
		return err
	}
	clear(out)
	if err := cmp.Or(c.Scan(Of(in), Of(out), op), expectSlice("scan"+what, upTo, out)); err != nil {
		return err
	}
	clear(out)
	if err := c.Reduce(Of(in), Of(out), op, c.Size()-1); err != nil || c.Rank() < c.Size()-1 {
		return err
	}
	return expectSlice("reduce"+what, all, out)
}

// element is a small number in a type; in an unsigned type, a negative number becomes a large one.
func element[T vec.Number](v int) (x T) {
	for range max(v, -v) {
		if x++; v < 0 {
			x -= 2
		}
	}
	return x
}

func everyReduction[T vec.Number](c *Comm, n int) error {
	return cmp.Or(reductions(c, n, Sum, func(a, b T) T { return a + b }), reductions(c, n, Prod, func(a, b T) T { return a * b }))
}

func everyOrderedReduction[T vec.Ordered](c *Comm, n int) error {
	return cmp.Or(everyReduction[T](c, n), reductions(c, n, Min, func(a, b T) T { return min(a, b) }), reductions(c, n, Max, func(a, b T) T { return max(a, b) }))
}

// unordered requires that elements of a type have only some operators, and that a refused operator
// has no effect.
func unordered[T any](c *Comm, ops ...Op) error {
	in, out := make([]T, 3), make([]T, 3)
	for _, op := range ops {
		for what, err := range map[string]error{
			"allreduce": c.Allreduce(Of(in), Of(out), op),
			"reduce":    c.Reduce(Of(in), Of(out), op, 0),
			"scan":      wait(c.Iscan(Of(in), Of(out), op)),
		} {
			if !errors.Is(err, ErrType) {
				return fmt.Errorf("%s (%v) of %T: %v", what, op, in[0], err)
			}
		}
	}
	return c.Barrier()
}

// Every operator has, on every kind of elements, small and large, the result of applying it one by
// one, or is refused.
func TestEveryReduction(t *testing.T) {
	for how, run := range runners {
		for _, ranks := range []int{1, 2, 5} {
			require.NoError(t, run(t.Context(), Config{Ranks: ranks}, func(c *Comm) error {
				for _, n := range []int{1, 9, 35, 9000} {
					for _, reduce := range []func(*Comm, int) error{everyOrderedReduction[uint8], everyOrderedReduction[int8], everyOrderedReduction[int16], everyOrderedReduction[int32],
						everyOrderedReduction[int64], everyOrderedReduction[uint16], everyOrderedReduction[uint32], everyOrderedReduction[uint64], everyOrderedReduction[float32],
						everyOrderedReduction[float64], everyOrderedReduction[celsius], everyReduction[complex64], everyReduction[complex128]} {
						if err := reduce(c, n); err != nil {
							return err
						}
					}
				}
				return cmp.Or(unordered[bool](c, Sum, Prod, Min, Max), unordered[cell](c, Sum, Prod, Min, Max),
					unordered[complex64](c, Min, Max), unordered[complex128](c, Min, Max))
			}), "%s, %d ranks", how, ranks)
		}
	}
}

// Each way to send and to receive takes the lowest and the highest legal ranks and tags. The next
// ones are refused with an error that names them, and nothing is lost.
func TestPeersAndTagsAtTheEdge(t *testing.T) {
	ctx := context.Background()
	request := func(r *Request) (Status, error) { return r.Wait(ctx) }
	run(t, 3, func(c *Comm) error {
		me, x := c.Rank(), []int{0}
		sends := map[string]func(peer, tag int) error{
			"send":   func(peer, tag int) error { return c.Send(Of([]int{tag}), peer, tag) },
			"ssend":  func(peer, tag int) error { return c.Ssend(Of([]int{tag}), peer, tag) },
			"isend":  func(peer, tag int) error { return WaitAll(ctx, c.Isend(Of([]int{tag}), peer, tag)) },
			"issend": func(peer, tag int) error { return WaitAll(ctx, c.Issend(Of([]int{tag}), peer, tag)) },
			"sendrecv": func(peer, tag int) error {
				_, err := c.Sendrecv(Of([]int{tag}), peer, tag, Buffer{}, ProcNull, 0)
				return err
			},
		}
		recvs := map[string]func(peer, tag int) (Status, error){
			"recv":  func(peer, tag int) (Status, error) { return c.Recv(Of(x), peer, tag) },
			"irecv": func(peer, tag int) (Status, error) { return request(c.Irecv(Of(x), peer, tag)) },
			"sendrecv": func(peer, tag int) (Status, error) {
				return c.Sendrecv(Buffer{}, ProcNull, 0, Of(x), peer, tag)
			},
			"probe": func(peer, tag int) (Status, error) { return c.Probe(peer, tag) },
			"iprobe": func(peer, tag int) (Status, error) {
				for {
					if ok, st, err := c.Iprobe(peer, tag); ok || err != nil {
						return st, err
					}
				}
			},
		}
		for _, peer := range []int{math.MinInt, ProcNull - 1, ProcNull, AnySource, me, c.Size(), c.Size() + 1, math.MaxInt} {
			for _, tag := range []int{math.MinInt, AnyTag - 1, AnyTag, 0, 1, TagUB - 1, TagUB, TagUB + 1, math.MaxInt} {
				for _, receives := range []bool{false, true} {
					refused := func(what string, err error) error {
						var e *Error
						want := ErrTag
						if peer < ProcNull || peer >= c.Size() || peer == AnySource && !receives {
							want = ErrRank
						}
						if !errors.Is(err, want) || !errors.As(err, &e) || e.Op != what || e.Peer != peer || e.Tag != tag {
							return fmt.Errorf("%s of %d, tag %d: %v, want %w", what, peer, tag, err, want)
						}
						return nil
					}
					good := (peer == me || peer == ProcNull || peer == AnySource && receives) && (tag >= 0 && tag <= TagUB || tag == AnyTag && receives)
					for _, what := range slices.Sorted(maps.Keys(sends)) {
						if receives {
							break
						}
						if !good {
							if err := refused(what, sends[what](peer, tag)); err != nil {
								return err
							}
							continue
						}
						r := c.Irecv(Of(x), me, AnyTag)
						if err := sends[what](peer, tag); err != nil {
							return err
						}
						if peer == ProcNull {
							r.Cancel()
							continue
						}
						st, err := r.Wait(ctx)
						if err := cmp.Or(err, expect(what, tag, x[0]), expect("status", Status{Source: me, Tag: tag, Bytes: st.Bytes}, st)); err != nil {
							return err
						}
					}
					for _, what := range slices.Sorted(maps.Keys(recvs)) {
						if !receives {
							break
						}
						if !good {
							if _, err := recvs[what](peer, tag); refused(what, err) != nil {
								return refused(what, err)
							}
							continue
						}
						sent := max(tag, 0)
						if peer != ProcNull {
							if err := c.Send(Of([]int{sent}), me, sent); err != nil {
								return err
							}
						}
						st, err := recvs[what](peer, tag)
						want := Status{Source: me, Tag: sent, Bytes: st.Bytes}
						if peer == ProcNull {
							want = nullStatus
						}
						if err := cmp.Or(err, expect(what, want, st)); err != nil {
							return fmt.Errorf("of %d, tag %d: %w", peer, tag, err)
						}
						if what == "probe" || what == "iprobe" {
							if _, err := c.Recv(Of(x), peer, tag); err != nil {
								return err
							}
						}
						if err := expect(what, sent, x[0]); peer != ProcNull && err != nil {
							return err
						}
					}
				}
			}
		}
		return nil
	})
}

// Roots, lengths and colours just beyond the legal ones are refused, by calls that wait and by
// requests, and nothing is lost. The lowest and highest legal colours and keys make communicators,
// in the order of their keys.
func TestCollectiveArgumentsAtTheEdge(t *testing.T) {
	run(t, 3, func(c *Comm) error {
		n, me := c.Size(), c.Rank()
		b := func(n int) Buffer { return Of(make([]int, n)) }
		both := func(k coll.Kind, in, out Buffer, op Op, root int, want error) error {
			for _, err := range []error{c.collective(k, in, out, op, root), wait(c.icollective(k, in, out, op, root))} {
				var e *Error
				if !errors.Is(err, want) || !errors.As(err, &e) || e.Op != coll.Names[k] {
					return fmt.Errorf("%s of %d and %d, root %d: %v, want %w", coll.Names[k], in.Len(), out.Len(), root, err, want)
				}
			}
			return nil
		}
		for _, root := range []int{math.MinInt32, -2, -1, n, n + 1, 1<<24 - 2} {
			if err := cmp.Or(both(coll.Bcast, b(1), b(1), Op{}, root, ErrRank), both(coll.Reduce, b(1), b(1), Sum, root, ErrRank),
				both(coll.Gather, b(1), b(n), Op{}, root, ErrRank), both(coll.Scatter, b(n), b(1), Op{}, root, ErrRank)); err != nil {
				return err
			}
		}
		for _, more := range []int{-1, 1} {
			if err := cmp.Or(both(coll.Allreduce, b(4), b(4+more), Sum, -1, ErrBuffer), both(coll.Scan, b(4), b(4+more), Sum, -1, ErrBuffer),
				both(coll.Allgather, b(4), b(4*n+more), Op{}, -1, ErrBuffer), both(coll.Alltoall, b(4*n+more), b(4*n+more), Op{}, -1, ErrBuffer),
				both(coll.Alltoall, b(4*n), b(4*n+more), Op{}, -1, ErrBuffer),
				// At the root only: the others do not use these buffers.
				both(coll.Reduce, b(4), b(4+more), Sum, me, ErrBuffer), both(coll.Gather, b(4), b(4*n+more), Op{}, me, ErrBuffer), both(coll.Scatter, b(4*n+more), b(4), Op{}, me, ErrBuffer)); err != nil {
				return err
			}
		}
		for _, color := range []int{math.MinInt, Undefined - 1, Undefined + 1, -1} {
			if s, err := c.Split(color, 0); s != nil || !errors.Is(err, ErrColor) {
				return fmt.Errorf("colour %d: %v", color, err)
			}
		}
		for _, color := range []int{0, 1, math.MaxInt - 1, math.MaxInt} {
			keys := [][]int{{math.MaxInt, math.MinInt, 0}, {0, -1, 1}, {math.MaxInt, math.MaxInt, math.MaxInt - 1}, {5, 5, 5}}
			for i, order := range [][]int{{2, 0, 1}, {1, 0, 2}, {1, 2, 0}, {0, 1, 2}} {
				s, err := c.Split(color, keys[i][me])
				if err := cmp.Or(err, expect("size", n, s.Size()), expect("rank", order[me], s.Rank()), s.Barrier()); err != nil {
					return fmt.Errorf("colour %d, keys %v: %w", color, keys[i], err)
				}
			}
			other := []int{color, Undefined, color ^ 1}[me]
			s, err := c.Split(other, 0)
			if err := cmp.Or(err, expect("none", me == 1, s == nil)); err != nil {
				return err
			}
			if s != nil {
				if err := cmp.Or(expect("size", 1, s.Size()), s.Barrier()); err != nil {
					return err
				}
			}
		}
		return c.Barrier()
	})
}

// A message of the eager limit goes without its receiver, and one that is larger by a byte does
// not.
func TestEagerLimitAtTheEdge(t *testing.T) {
	for how, run := range runners {
		for _, limit := range []int{1, 100, 5000} {
			require.NoError(t, run(t.Context(), Config{Ranks: 2, EagerLimit: limit}, func(c *Comm) error {
				for size := limit - 1; size <= limit+1; size++ {
					var r *Request
					if c.Rank() == 0 {
						r = c.Isend(Of(make([]byte, size)), 1, 0)
						if err := expect(fmt.Sprintf("%d bytes are sent", size), size <= limit, r.Done()); err != nil {
							return err
						}
					}
					if err := c.Barrier(); err != nil {
						return err
					}
					if c.Rank() == 1 {
						r = c.Irecv(Of(make([]byte, size)), 0, 0)
					}
					if st, err := r.Wait(context.Background()); err != nil || c.Rank() == 1 && st.Bytes != size {
						return fmt.Errorf("%d bytes: %+v, %w", size, st, err)
					}
				}
				return nil
			}), how)
		}
	}
}

// fieldCall is a collective with certain fields, with elements of 8 bytes, as errors print it.
func fieldCall(k coll.Kind, op Op, root, n int, of func(n int) Buffer, request bool) aCall {
	elem := of(1)
	name := coll.NewSignature(coll.NewCollective(k, op.impl, root), (&coll.Call{In: elem.b, Out: elem.b}).Elem(), 8*n).String()
	return aCall{name, func(c *Comm, _ int) error {
		in, out := of(n), of(n)
		switch p := c.Size(); k {
		case coll.Gather, coll.Allgather:
			out = of(n * p)
		case coll.Scatter:
			in = of(n * p)
		case coll.Alltoall:
			in, out = of(n*p), of(n*p)
		case coll.Bcast:
			out = in
		}
		if request {
			return wait(c.icollective(k, in, out, op, root))
		}
		return c.collective(k, in, out, op, root)
	}}
}

// If one rank differs from the others in any one field of a collective, each rank gets ErrMismatch
// that names both.
func TestEachFieldMustAgree(t *testing.T) {
	defer func(d time.Duration) { staleAfter = d }(staleAfter)
	staleAfter = 2 * time.Millisecond
	ints, floats, unsigned := func(n int) Buffer { return Of(make([]int64, n)) }, func(n int) Buffer { return Of(make([]float64, n)) }, func(n int) Buffer { return Of(make([]uint64, n)) }
	own := OpFunc(true, func(in, inout []int64) {})
	for how, run := range runners {
		for ranks := 2; ranks <= 4; ranks++ {
			t.Run(fmt.Sprintf("%s, %d ranks", how, ranks), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.NoError(t, run(ctx, Config{Ranks: ranks}, func(c *Comm) error {
					turn := 0
					for k := coll.Bcast; k <= coll.Alltoall; k++ {
						for _, n := range []int{1, smcoll.DataMax / 8, 5000} {
							turn++
							op, root, request := Op{}, -1, turn%2 == 0
							if k == coll.Bcast || k == coll.Reduce || k == coll.Gather || k == coll.Scatter {
								root = turn % c.Size()
							}
							if k == coll.Reduce || k == coll.Allreduce || k == coll.Scan {
								op = []Op{Sum, Min, Max, Prod}[turn%4]
							}
							others := []aCall{fieldCall(k, op, root, n+1, ints, request), fieldCall(k, op, root, n-1, ints, request),
								fieldCall(k, op, root, n, floats, request), fieldCall(k, op, root, n, unsigned, !request)}
							if root >= 0 {
								others = append(others, fieldCall(k, op, (root+1)%c.Size(), n, ints, request), fieldCall(k, op, (root+c.Size()-1)%c.Size(), n, ints, !request))
							}
							if op.impl != nil {
								for _, other := range []Op{Sum, Min, Max, Prod, own} {
									if other.impl != op.impl {
										others = append(others, fieldCall(k, other, root, n, ints, request))
									}
								}
							}
							x := fieldCall(k, op, root, n, ints, request)
							for i, y := range others {
								if err := disagree(c, n, x, y, (turn+i)%c.Size()); err != nil {
									return err
								}
							}
						}
					}
					return nil
				}))
			})
		}
	}
}
