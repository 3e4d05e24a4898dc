// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

// parts are what ranks show of a small collective, at the hub or at the board.
type parts interface{ part(r int) []byte }

// hubParts are the places of one collective. They are active or claimed.
type hubParts struct {
	h   *hub
	seq uint64
}

func (s hubParts) part(r int) []byte { return s.h.place(r, s.seq).inline[:] }

// flat computes a small collective of n ranks, for one of them, from what all show.
func flat[P parts](d *collCall, me, n int, all P) error {
	u := d.unit
	if u == 0 {
		return nil
	}
	switch d.kind {
	case bcast:
		if me != d.root {
			d.out.CopyFromBytes(all.part(d.root)[:u], 0)
		}
	case scatter:
		d.out.CopyFromBytes(all.part(d.root)[me*u:(me+1)*u], 0)
	case gather:
		if me == d.root {
			collect(d, n, all)
		}
	case allgather:
		collect(d, n, all)
	case alltoall:
		for r := range n {
			d.out.CopyFromBytes(all.part(r)[me*u:(me+1)*u], r*u)
		}
	case reduce:
		if me == d.root {
			return combine(d, n, all)
		}
	case allreduce:
		return combine(d, n, all)
	case scan:
		return scanFlat(d, me, all)
	}
	return nil
}

// collect puts all parts side by side.
func collect[P parts](d *collCall, n int, all P) {
	for r := range n {
		d.out.CopyFromBytes(all.part(r)[:d.unit], r*d.unit)
	}
}

// combine combines all parts, in the order of the tree.
func combine[P parts](d *collCall, n int, all P) error {
	mem, ok := d.out.Contiguous()
	if ok && n == 2 {
		return d.op.combine(d.out, d.out.over(all.part(0)[:d.unit]), d.out.over(all.part(1)[:d.unit]))
	}
	e := executors.Get().(*executor)
	defer e.release()
	if !ok {
		mem = scratch(&e.acc, d.unit)
	}
	t, u := treeOf(d, n), d.unit // who calls keeps d on its stack
	t.leaf = func(r int) []byte { return all.part(r)[:u] }
	err := t.eval(e, mem, 0, t.width, 0)
	if !ok && err == nil { // else mem may hold what another collective has left
		d.out.CopyFromBytes(mem, 0)
	}
	return err
}

// scanFlat is what scanDoubling computes at a rank: in round k, what the rank 2^k below has is put before what this one has.
func scanFlat[P parts](d *collCall, me int, all P) error {
	u := d.unit
	tmp := newBlock((me + 1) * u)
	defer tmp.free()
	at := func(r int) []byte { return tmp.b[r*u : (r+1)*u] }
	for r := range me + 1 {
		copy(at(r), all.part(r)[:u])
	}
	for k := 1; k <= me; k *= 2 {
		for r := me; r >= k; r-- {
			if err := d.op.apply(d.in.over(at(r-k)), d.in.over(at(r))); err != nil {
				return err
			}
		}
	}
	d.out.CopyFromBytes(at(me), 0)
	return nil
}
