// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/internal/fabric/inproc"
	"weft/rma"
)

// Puts and gets between processes, with sizes around every limit of the protocol, from contiguous
// and strided memory.
func TestSizesAcrossProcesses(t *testing.T) {
	for _, eager := range []int{0, -1, 1000} {
		ctx := inproc.Divide(t.Context())
		require.NoError(t, comm.Run(ctx, comm.Config{Ranks: 2, EagerLimit: eager}, func(c *comm.Comm) error {
			const most = 200_003
			other := 1 - c.Rank()
			w, mine, err := rma.Allocate[byte](c, most+64)
			if err != nil {
				return err
			}
			src, back := make([]byte, 2*most), make([]byte, 2*most)
			for i := range src {
				src[i] = byte(i*7 + i>>8 + c.Rank())
			}
			for _, n := range []int{1, 7, 8, 8192, 8193, 16327, 16328, 16329, most} {
				for _, strided := range []bool{false, true} {
					out, in := comm.Of(src[:n]), comm.Of(back[:n])
					at := 1
					if strided {
						out, in = comm.Vector(src, n, 1, 2), comm.Vector(back, n, 1, 2)
						at = 2
					}
					clear(back)
					clear(mine)
					if err := errors.Join(w.Fence(0), w.Put(out, other, 13), w.Fence(0)); err != nil {
						return fmt.Errorf("%d bytes: %w", n, err)
					}
					if err := errors.Join(w.Get(in, other, 13), w.Fence(0)); err != nil {
						return fmt.Errorf("%d bytes: %w", n, err)
					}
					for i := range n {
						if back[i*at] != src[i*at] {
							return fmt.Errorf("%d bytes, strided %v: byte %d is %d", n, strided, i, back[i*at])
						}
					}
					if mine[12] != 0 || mine[13+n] != 0 {
						return fmt.Errorf("%d bytes, strided %v: a byte outside was written", n, strided)
					}
				}
			}
			return w.Free()
		}), "eager limit %d", eager)
	}
}

// More operations of each kind than may be in flight. The rest waits at the origin, in order.
func TestFloodAcrossProcesses(t *testing.T) {
	const n = 3000 // the smallest commands fill more than 16 packets
	run(t, 3, func(c *comm.Comm) error {
		me, size := c.Rank(), c.Size()
		w, mine, err := rma.Allocate[int64](c, size*n)
		if err != nil {
			return err
		}
		src, got := make([]int64, n), make([]int64, n)
		for i := range src {
			src[i] = int64(me*n + i)
		}
		right := (me + 1) % size
		w.Ifence(0)
		for i := range n {
			err = errors.Join(err, w.Put(comm.Of(src[i:i+1]), right, me*n+i))
		}
		w.Ifence(0)
		for i := range n {
			err = errors.Join(err, w.Accumulate(comm.Of(src[i:i+1]), right, me*n+i, comm.Sum),
				// the last Replace determines the value
				w.Accumulate(comm.Of(src[n-1-i:n-i]), right, me*n, rma.Replace))
		}
		w.Ifence(0)
		for i := range n {
			err = errors.Join(err, w.Get(comm.Of(got[i:i+1]), right, me*n+i))
		}
		if err := errors.Join(err, w.Fence(0)); err != nil {
			return err
		}
		left := (me + size - 1) % size
		for i := range n {
			want := 2 * src[i]
			if i == 0 {
				want = src[0]
			}
			if got[i] != want {
				return fmt.Errorf("got[%d] is %d, want %d", i, got[i], want)
			}
			if want := int64(2 * (left*n + i)); i > 0 && mine[left*n+i] != want {
				return fmt.Errorf("mine[%d] is %d, want %d", i, mine[left*n+i], want)
			}
		}
		return w.Free()
	})
}

// A random program has the same result however its ranks are spread over processes.
func TestRandomProgramHasOneResult(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range uint64(3) {
		var results [][]int64
		for _, way := range []string{"together", "apart", "mixed"} {
			var all []int64
			require.NoError(t, comm.Run(ways[way](t.Context()), comm.Config{Ranks: 4}, func(c *comm.Comm) error {
				res, err := randomProgram(c, rand.New(rand.NewPCG(seed, round<<8|uint64(c.Rank()))))
				if err != nil {
					return err
				}
				whole := make([]int64, len(res)*c.Size())
				err = c.Gather(comm.Of(res), comm.Of(whole), 0)
				if c.Rank() == 0 {
					all = whole
				}
				return err
			}), "seed %d round %d %s", seed, round, way)
			results = append(results, all)
		}
		require.True(t, slices.Equal(results[0], results[1]), "seed %d round %d: apart", seed, round)
		require.True(t, slices.Equal(results[0], results[2]), "seed %d round %d: mixed", seed, round)
	}
}

// randomProgram has epochs. In each epoch, each rank writes to its own part of every region, adds
// to a common part, and reads a part that was written in the previous epoch and is not written in
// this one. The result does not depend on time.
func randomProgram(c *comm.Comm, rng *rand.Rand) ([]int64, error) {
	const part, epochs = 3000, 12
	me, size := c.Rank(), c.Size()
	w, mine, err := rma.Allocate[int64](c, (2*size+1)*part)
	if err != nil {
		return nil, err
	}
	var read []int64
	var kept [][]int64
	var reqs []*comm.Request
	reqs = append(reqs, w.Ifence(0))
	for e := range epochs {
		write, still := (e%2*size+me)*part, (1-e%2)*size*part
		at := 0
		for at < part-1 {
			n := 1 + rng.IntN(min(part-at, 1<<rng.IntN(12)))
			src := make([]int64, n)
			for i := range src {
				src[i] = rng.Int64N(1000)
			}
			kept = append(kept, src)
			to := rng.IntN(size)
			switch rng.IntN(4) {
			case 0, 1:
				err = errors.Join(err, w.Put(comm.Of(src), to, write+at))
				at += n
			case 2:
				err = errors.Join(err, w.Accumulate(comm.Of(src), to, 2*size*part+rng.IntN(part-n+1), comm.Sum))
			case 3:
				err = errors.Join(err, w.Get(comm.Of(src), to, still+rng.IntN(size*part-n+1)))
			}
		}
		reqs = append(reqs, w.Ifence(0))
		if rng.IntN(3) == 0 {
			err = errors.Join(err, comm.WaitAll(c.Context(), reqs...))
			reqs = nil
		}
	}
	if err := errors.Join(err, w.Fence(0)); err != nil {
		return nil, err
	}
	var sum int64
	for _, k := range kept {
		for i, v := range k {
			sum = sum*31 + v*int64(i+1)
		}
	}
	read = append(read, sum)
	read = append(read, mine...)
	return read, w.Free()
}

// Between processes, Accumulate refuses an operator of the user and an element that does not fit
// into one packet. Everything else is legal.
func TestAccumulateLimitsAcrossProcesses(t *testing.T) {
	type big [17 << 10]byte
	type fits [16<<10 - 56]byte
	require.NoError(t, comm.Run(inproc.Divide(t.Context()), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		w, mine, err := rma.Allocate[byte](c, 1<<20)
		if err != nil {
			return err
		}
		other := 1 - c.Rank()
		three := make([]fits, 3)
		three[2][5] = 7
		err = errors.Join(w.Fence(0),
			wants(w.Accumulate(comm.Of([]int{1}), other, 0, comm.OpFunc(true, func(in, inout []int) {})), rma.ErrOp),
			wants(w.Accumulate(comm.Of(make([]big, 1)), other, 0, rma.Replace), rma.ErrUnsupported),
			w.Accumulate(comm.Of(make([]big, 1)), c.Rank(), 0, rma.Replace),
			w.Accumulate(comm.Of(three), other, 1, rma.Replace),
			w.Fence(0))
		return errors.Join(err, expect(mine[1+2*len(three[0])+5] == 7, "the accumulate has not arrived"), w.Free())
	}))
}

// If a rank fails, the fences of the other ranks end, whatever operations on its region are in
// progress.
func TestAbortWithOperationsUnderWay(t *testing.T) {
	boom := errors.New("boom")
	for range 10 {
		err := comm.Run(inproc.Divide(t.Context()), comm.Config{Ranks: 3}, func(c *comm.Comm) error {
			w, _, err := rma.Allocate[int64](c, 1<<16)
			if err != nil {
				return err
			}
			if err := w.Fence(0); err != nil {
				return err
			}
			if c.Rank() == 2 {
				return boom
			}
			const large = 1 << 11
			buf, in := make([]int64, 1<<16), make([]int64, 1<<16)
			for k := range 8 { // all of them may be queued before this rank learns of the end
				for i := range 100 {
					w.Put(comm.Of(buf[i:i+1]), 2, c.Rank()*800+k*100+i)
				}
				w.Put(comm.Of(buf[:large]), 2, (1+c.Rank()*8+k)*large)
				w.Get(comm.Of(in[k*large:][:large]), 2, 1<<15+2*large)
				w.Accumulate(comm.Of(buf[:large]), 2, 1<<15+large, comm.Sum)
			}
			err = w.Fence(0)
			return errors.Join(wants(err, comm.ErrAborted), wants(w.Free(), comm.ErrAborted))
		})
		require.ErrorIs(t, err, boom)
	}
}
