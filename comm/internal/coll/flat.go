// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import "weft/comm/internal/mem"

// parts has the contributions that ranks have published to a small collective.
type parts interface{ Part(r int) []byte }

// Flat computes the result of rank me in a small collective of n ranks, from the published
// contributions.
func Flat[P parts](d *Call, me, n int, all P) error {
	u := d.Unit
	if u == 0 {
		return nil
	}
	switch d.Kind {
	case Bcast:
		if me != d.Root {
			d.Out.CopyFromBytes(all.Part(d.Root)[:u], 0)
		}
	case Scatter:
		d.Out.CopyFromBytes(all.Part(d.Root)[me*u:(me+1)*u], 0)
	case Gather:
		if me == d.Root {
			collect(d, n, all)
		}
	case Allgather:
		collect(d, n, all)
	case Alltoall:
		for r := range n {
			d.Out.CopyFromBytes(all.Part(r)[me*u:(me+1)*u], r*u)
		}
	case Reduce:
		if me == d.Root {
			return combine(d, n, all)
		}
	case Allreduce:
		return combine(d, n, all)
	case Scan:
		return scanFlat(d, me, all)
	}
	return nil
}

// collect copies all contributions to the output, in the order of the ranks.
func collect[P parts](d *Call, n int, all P) {
	for r := range n {
		d.Out.CopyFromBytes(all.Part(r)[:d.Unit], r*d.Unit)
	}
}

// combine combines all contributions in the order of the tree.
func combine[P parts](d *Call, n int, all P) error {
	mem, ok := d.Out.Contiguous()
	if ok && n == 2 {
		return d.Op.combine(d.Out, d.Out.Over(all.Part(0)[:d.Unit]), d.Out.Over(all.Part(1)[:d.Unit]))
	}
	e := Pads.Get().(*Pad)
	defer e.Release()
	if !ok {
		mem = Scratch(&e.Acc, d.Unit)
	}
	t, u := TreeOf(d, n), d.Unit // the caller keeps d on its stack
	t.Leaf = func(r int) []byte { return all.Part(r)[:u] }
	err := t.Eval(e, mem, 0, t.Width, 0)
	if !ok && err == nil { // after an error, mem may have data of another collective
		d.Out.CopyFromBytes(mem, 0)
	}
	return err
}

// scanFlat computes what scanDoubling computes at a rank: in round k, the partial result of the
// rank 2^k below is combined with that of the rank, in this order.
func scanFlat[P parts](d *Call, me int, all P) error {
	u := d.Unit
	tmp := mem.NewBlock((me + 1) * u)
	defer tmp.Free()
	at := func(r int) []byte { return tmp.B[r*u : (r+1)*u] }
	for r := range me + 1 {
		copy(at(r), all.Part(r)[:u])
	}
	for k := 1; k <= me; k *= 2 {
		for r := me; r >= k; r-- {
			if err := d.Op.Apply(d.In.Over(at(r-k)), d.In.Over(at(r))); err != nil {
				return err
			}
		}
	}
	d.Out.CopyFromBytes(at(me), 0)
	return nil
}
