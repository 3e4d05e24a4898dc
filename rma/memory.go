// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"weft/comm"
)

// Allocate makes a window of process memory with n elements at this rank, and returns them. The
// displacement unit is the element size. Collective; n may differ between ranks, which may be in
// one process or in several. T must hold no pointers. Errors, on all ranks alike: ErrSize,
// comm.ErrType, ErrInfo.
func Allocate[T any](c *comm.Comm, n int, info ...comm.Info) (*Win, []T, error) {
	var mem []T
	var bad error
	if size := int(reflect.TypeFor[T]().Size()); n < 0 || (size > 0 && n > maxRegion/size) {
		bad = fmt.Errorf("%w: %d elements of %d bytes; legal are 0 to %d bytes", ErrSize, n, size, maxRegion)
	} else {
		mem = make([]T, n)
	}
	w, err := create(c, mem, bad, info)
	if err != nil {
		return nil, nil, err
	}
	return w, mem, nil
}

// Create is Allocate with memory of the caller's. Between a rank's call of a fence and the end of
// its next fence the caller touches mem only where no other rank does in that epoch.
func Create[T any](c *comm.Comm, mem []T, info ...comm.Info) (*Win, error) {
	return create(c, mem, nil, info)
}

const maxRegion = 1 << 48 // bytes; so that sums stay far from overflow

// group is what the ranks of a process-memory window share.
type group struct {
	// by rank; each set by its rank before the second exchange in create, constant after it
	mem   [][]byte
	locks []sync.Mutex // by rank: Accumulate on its region
}

// groups holds the groups that are being made. An entry leaves when all ranks have found it.
var groups sync.Map // random id → *group

// create agrees on a window: what each rank brings, and, in a second exchange, that each has found
// the group of its process and left its memory there.
func create[T any](c *comm.Comm, mem []T, bad error, infos []comm.Info) (*Win, error) {
	fail := func(err error) (*Win, error) {
		return nil, &Error{Op: "create window", Rank: c.Rank(), Peer: NoPeer, Err: cause(err)}
	}
	buf := comm.Of(mem)
	mine := offer{size: int64(buf.Bytes()), unit: int64(max(1, buf.ElemSize()))}
	switch {
	case bad != nil:
		mine.code = codeSize
	case buf.Err() != nil:
		bad, mine.code = buf.Err(), codeType
	}
	leader := 0 // of this process: makes the group
	for !c.Local(leader) {
		leader++
	}
	if leader == c.Rank() {
		var id [8]byte
		rand.Read(id[:]) // never fails: the runtime ends the program instead
		mine.id = int64(binary.NativeEndian.Uint64(id[:]))
		groups.Store(mine.id, &group{mem: make([][]byte, c.Size()), locks: make([]sync.Mutex, c.Size())})
		defer groups.Delete(mine.id)
	}
	mine.leader = int64(leader)
	offers := make([]offer, c.Size())
	if err := c.AllgatherFor(comm.ForWindow, comm.Of([]offer{mine}), comm.Of(offers)); err != nil {
		return fail(err)
	}
	b := &memory{}
	together, apart := true, true // all ranks in one process; each in its own
	for r, o := range offers {
		if o.code != 0 {
			return fail(errors.Join(bad, fmt.Errorf("%w: rank %d brings memory that cannot be used", codeErrors[o.code], r)))
		}
		if o.size < 0 || o.size > maxRegion || o.unit < 1 || o.leader < 0 || o.leader > int64(r) {
			return fail(fmt.Errorf("%w: rank %d brings %d bytes in units of %d, led by rank %d", ErrProtocol, r, o.size, o.unit, o.leader))
		}
		b.regions = append(b.regions, Region{Size: int(o.size), Unit: int(o.unit)})
		together = together && o.leader == 0
		apart = apart && o.leader == int64(r)
	}
	g, ok := groups.Load(offers[leader].id)
	if !ok {
		return fail(fmt.Errorf("%w: rank %d is said to be in this process, and has left nothing here", ErrProtocol, leader))
	}
	b.g = g.(*group)
	region, _ := buf.Contiguous()
	b.g.mem[c.Rank()] = region
	if err := c.Barrier(); err != nil {
		return fail(err)
	}
	var info comm.Info
	for _, in := range infos {
		for _, k := range in.Keys() {
			info.Set(k, in.Get(k))
		}
	}
	if !together {
		var err error
		if b.p, err = newPort(c, region, &b.g.locks[c.Rank()]); err != nil {
			return fail(err)
		}
	}
	return newWin(c, b, info, apart && !together)
}

// offer is what a rank brings to a window.
type offer struct{ size, unit, code, id, leader int64 }

const (
	codeSize = 1 + iota
	codeType
)

var codeErrors = map[int64]error{codeSize: ErrSize, codeType: comm.ErrType}

func (m *memory) Regions() []Region { return m.regions }

// far reports whether a rank's region is in another process.
func (m *memory) far(rank int) bool { return m.p != nil && m.p.lanes[rank] != nil }

func (m *memory) Put(rank, off int, src comm.Buffer) error {
	if m.far(rank) {
		return m.p.put(rank, off, src)
	}
	src.CopyToBytes(m.g.mem[rank][off:], 0)
	return nil
}

func (m *memory) Get(rank, off int, dst comm.Buffer) error {
	if m.far(rank) {
		return m.p.get(rank, off, dst)
	}
	dst.CopyFromBytes(m.g.mem[rank][off:], 0)
	return nil
}

func (m *memory) Accumulate(rank, off int, src comm.Buffer, op comm.Op) error {
	if m.far(rank) {
		return m.p.accumulate(rank, off, src, op)
	}
	l := &m.g.locks[rank]
	l.Lock()
	defer l.Unlock()
	return Apply(m.g.mem[rank][off:off+src.Bytes()], src, op)
}

func (m *memory) Flush(done func(error)) {
	if m.p != nil {
		m.p.flush(done)
		return
	}
	done(nil)
}

func (m *memory) Closed(done func(error)) { done(nil) }

func (m *memory) Free() error {
	if m.p != nil {
		m.p.close()
	}
	return nil
}
