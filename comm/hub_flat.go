// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

// flat computes a small collective of one rank from what the places have in them. The place is active or claimed.
func (h *hub) flat(p *place, me int, seq uint64) error {
	u := p.unit
	if u == 0 {
		return nil
	}
	at := func(r int) []byte { return h.place(r, seq).inline[:] }
	switch p.kind {
	case bcast:
		if me != p.root {
			p.out.CopyFromBytes(at(p.root)[:u], 0)
		}
	case scatter:
		p.out.CopyFromBytes(at(p.root)[me*u:(me+1)*u], 0)
	case gather:
		if me == p.root {
			h.collect(p, seq)
		}
	case allgather:
		h.collect(p, seq)
	case alltoall:
		for r := range h.size {
			p.out.CopyFromBytes(at(r)[me*u:(me+1)*u], r*u)
		}
	case reduce:
		if me == p.root {
			return h.combine(p, seq)
		}
	case allreduce:
		return h.combine(p, seq)
	case scan:
		return h.scan(p, me, seq)
	}
	return nil
}

// collect puts all parts side by side.
func (h *hub) collect(p *place, seq uint64) {
	for r := range h.size {
		p.out.CopyFromBytes(h.place(r, seq).inline[:p.unit], r*p.unit)
	}
}

// combine combines all parts, in the order of the tree.
func (h *hub) combine(p *place, seq uint64) error {
	mem, ok := p.out.Contiguous()
	if ok && h.size == 2 {
		copy(mem, h.place(1, seq).inline[:p.unit])
		return p.op.apply(p.out.over(h.place(0, seq).inline[:p.unit]), p.out)
	}
	e := executors.Get().(*executor)
	defer e.release()
	if !ok {
		mem = scratch(&e.acc, p.unit)
	}
	t := treeOf(&p.collCall, h.size)
	t.leaf = func(r int) []byte { return h.place(r, seq).inline[:p.unit] }
	err := t.eval(e, mem, 0, t.width, 0)
	if !ok && err == nil {
		p.out.CopyFromBytes(mem, 0)
	}
	return err
}

// scan is what scanDoubling computes at a rank: in round k, what the rank 2^k below has is put before what this one has.
func (h *hub) scan(p *place, me int, seq uint64) error {
	u := p.unit
	all := newBlock((me + 1) * u)
	defer all.free()
	at := func(r int) []byte { return all.b[r*u : (r+1)*u] }
	for r := range me + 1 {
		copy(at(r), h.place(r, seq).inline[:u])
	}
	for d := 1; d <= me; d *= 2 {
		for r := me; r >= d; r-- {
			if err := p.op.apply(p.in.over(at(r-d)), p.in.over(at(r))); err != nil {
				return err
			}
		}
	}
	p.out.CopyFromBytes(at(me), 0)
	return nil
}
