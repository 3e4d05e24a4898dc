// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma_test

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"unsafe"

	"weft/comm"
	"weft/rma"
)

type numeric interface {
	~uint8 | ~int8 | ~int16 | ~int32 | ~int64 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// product runs every operator on elements of one type: sizes from 0 to more than a chunk, at byte
// offsets that are aligned or not, from contiguous and strided sources.
func product[T numeric](w *rma.Win, mem []byte, me int) error {
	ops := map[string]struct {
		op   comm.Op
		want func(target, src T) T
	}{
		"sum":     {comm.Sum, func(a, b T) T { return a + b }},
		"prod":    {comm.Prod, func(a, b T) T { return a * b }},
		"min":     {comm.Min, func(a, b T) T { return min(a, b) }},
		"max":     {comm.Max, func(a, b T) T { return max(a, b) }},
		"replace": {rma.Replace, func(a, b T) T { return b }},
	}
	size := int(unsafe.Sizeof(*new(T)))
	for name, o := range ops {
		for _, n := range []int{0, 1, 3, 64, 1000} {
			for _, shift := range []int{0, 1, 4, size} {
				for _, strided := range []bool{false, true} {
					where := fmt.Sprintf("%v %s n=%d shift=%d strided=%v", reflect.TypeFor[T](), name, n, shift, strided)
					target, src := make([]T, n), make([]T, 2*n)
					buf := comm.Of(src[:n])
					at := func(i int) int { return i }
					if strided {
						buf = comm.Vector(src, n, 1, 2)
						at = func(i int) int { return 2 * i }
					}
					for i := range n {
						target[i], src[at(i)] = T(i%7+2), T(i%5+1)
					}
					clear(mem)
					if err := errors.Join(
						w.Put(comm.Of(target), me, shift),
						w.Accumulate(buf, me, shift, o.op),
						w.Get(comm.Of(target), me, shift)); err != nil {
						return fmt.Errorf("%s: %w", where, err)
					}
					for i := range n {
						if want := o.want(T(i%7+2), src[at(i)]); target[i] != want {
							return fmt.Errorf("%s: element %d: %v, want %v", where, i, target[i], want)
						}
					}
					for i, b := range mem {
						if (i < shift || i >= shift+n*size) && b != 0 {
							return fmt.Errorf("%s: byte %d was written", where, i)
						}
					}
				}
			}
		}
	}
	return nil
}

func TestAccumulateProduct(t *testing.T) {
	run(t, 1, func(c *comm.Comm) error {
		w, mem, err := rma.Allocate[byte](c, 9000)
		if err != nil {
			return err
		}
		if err := w.Fence(0); err != nil {
			return err
		}
		return errors.Join(
			product[uint8](w, mem, 0), product[int8](w, mem, 0), product[int16](w, mem, 0), product[uint16](w, mem, 0),
			product[int32](w, mem, 0), product[uint32](w, mem, 0), product[int64](w, mem, 0), product[uint64](w, mem, 0),
			product[float32](w, mem, 0), product[float64](w, mem, 0), complexes(w), w.Fence(0), w.Free())
	})
}

func complexes(w *rma.Win) error {
	for _, shift := range []int{0, 3} {
		got := []complex128{1 + 2i, 3}
		if err := errors.Join(
			w.Put(comm.Of(got), 0, shift),
			w.Accumulate(comm.Of([]complex128{1i, 1}), 0, shift, comm.Prod),
			w.Accumulate(comm.Of([]complex128{1, 1}), 0, shift, comm.Sum),
			w.Get(comm.Of(got), 0, shift),
			wants(w.Accumulate(comm.Of(got), 0, shift, comm.Min), rma.ErrOp)); err != nil {
			return err
		}
		if got[0] != -1+1i || got[1] != 4 {
			return fmt.Errorf("complex at %d: %v", shift, got)
		}
	}
	type point struct{ x, y int32 } // Replace accepts every kind
	got := []point{{}}
	err := errors.Join(w.Accumulate(comm.Of([]point{{1, 2}}), 0, 8, rma.Replace), w.Get(comm.Of(got), 0, 8),
		wants(w.Accumulate(comm.Of(got), 0, 8, comm.Sum), rma.ErrOp))
	return errors.Join(err, expect(got[0] == point{1, 2}, "%v", got))
}

// All ranks and several goroutines of each add to the same elements at once.
func TestAccumulateHammer(t *testing.T) {
	const ranks, workers, rounds, n = 3, 2, 50, 300
	run(t, ranks, func(c *comm.Comm) error {
		w, mine, err := rma.Allocate[float64](c, n)
		if err != nil {
			return err
		}
		if err := w.Fence(0); err != nil {
			return err
		}
		ones := make([]float64, n)
		for i := range ones {
			ones[i] = 1
		}
		var wg sync.WaitGroup
		errs := make([]error, workers)
		for g := range workers {
			wg.Go(func() {
				for range rounds {
					for r := range ranks {
						errs[g] = errors.Join(errs[g], w.Accumulate(comm.Of(ones), r, 0, comm.Sum))
					}
				}
			})
		}
		wg.Wait()
		if err := errors.Join(append(errs, w.Fence(0))...); err != nil {
			return err
		}
		for i, v := range mine {
			if v != ranks*workers*rounds {
				return fmt.Errorf("element %d: %v", i, v)
			}
		}
		return w.Free()
	})
}

// several makes goroutines of all ranks add to the same elements of rank 0, which are not aligned.
func several[T numeric | complex64 | complex128](c *comm.Comm, w *rma.Win, mem []byte) error {
	const n, goroutines, rounds, shift = 700, 2, 4, 3
	clear(mem)
	if err := w.Fence(0); err != nil {
		return err
	}
	ones, got := make([]T, n), make([]T, n)
	for i := range ones {
		ones[i] = 1
	}
	var wg sync.WaitGroup
	errs := make([]error, goroutines)
	for g := range errs {
		wg.Go(func() {
			for range rounds {
				errs[g] = errors.Join(errs[g], w.Accumulate(comm.Of(ones), 0, shift, comm.Sum))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errors.Join(errs...), w.Fence(0), w.Get(comm.Of(got), 0, shift), w.Fence(0)); err != nil {
		return err
	}
	var want T
	for range c.Size() * goroutines * rounds {
		want++
	}
	for i, v := range got {
		if v != want {
			return fmt.Errorf("%v: element %d: %v", reflect.TypeFor[T](), i, v)
		}
	}
	return nil
}

// Ranks of one process and of others accumulate on the same elements, of each kind.
func TestAccumulatesOfSeveralRanks(t *testing.T) {
	run(t, 4, func(c *comm.Comm) error {
		w, mem, err := rma.Allocate[byte](c, 700*16+8)
		if err != nil {
			return err
		}
		for _, of := range []func(*comm.Comm, *rma.Win, []byte) error{
			several[int8], several[uint8], several[int16], several[uint16], several[int32], several[uint32], several[int64], several[uint64],
			several[float32], several[float64], several[complex64], several[complex128],
		} {
			if err := of(c, w, mem); err != nil {
				return err
			}
		}
		return w.Free()
	})
}

func BenchmarkPut(b *testing.B) {
	for _, size := range []int{8, 4096, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			err := comm.Run(b.Context(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
				w, mine, err := rma.Allocate[byte](c, size)
				if err != nil {
					return err
				}
				if err := w.Fence(0); err != nil {
					return err
				}
				if c.Rank() == 0 {
					src := make([]byte, size)
					src[size-1] = 1
					b.SetBytes(int64(size))
					b.ReportAllocs()
					for b.Loop() {
						if err := w.Put(comm.Of(src), 1, 0); err != nil {
							return err
						}
					}
				}
				err = w.Fence(0)
				if c.Rank() == 1 && mine[size-1] != 1 {
					err = errors.Join(err, errors.New("the last byte did not arrive"))
				}
				return errors.Join(err, w.Free())
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkFence(b *testing.B) {
	for _, ranks := range []int{1, 2} {
		b.Run(fmt.Sprint(ranks), func(b *testing.B) {
			fences := 0
			err := comm.Run(b.Context(), comm.Config{Ranks: ranks}, func(c *comm.Comm) error {
				w, _, err := rma.Allocate[byte](c, 1)
				if err != nil {
					return err
				}
				// Rank 0 tells the other rank before each fence whether there is another one.
				more := []bool{true}
				n := 0
				if c.Rank() == 0 {
					b.ReportAllocs()
				}
				for more[0] {
					if c.Rank() == 0 {
						more[0] = b.Loop()
					}
					if ranks > 1 {
						if err := c.Bcast(comm.Of(more), 0); err != nil {
							return err
						}
					}
					if !more[0] {
						break
					}
					if err := w.Fence(0); err != nil {
						return err
					}
					n++
				}
				if c.Rank() == 0 {
					fences = n
				}
				return w.Free()
			})
			if err != nil {
				b.Fatal(err)
			}
			if fences < b.N {
				b.Fatalf("%d fences of %d", fences, b.N)
			}
		})
	}
}
