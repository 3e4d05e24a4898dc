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

// Allocate makes a window of process memory with n elements at this rank, and returns them. The displacement unit is
// the element size. Collective; n may differ between ranks. T must hold no pointers. Errors, on all ranks alike:
// ErrSize, comm.ErrType, ErrUnsupported if the ranks are not in one process, ErrInfo.
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

// Create is Allocate with memory of the caller's. Between a rank's call of a fence and the end of its next fence the
// caller touches mem only where no other rank does in that epoch.
func Create[T any](c *comm.Comm, mem []T, info ...comm.Info) (*Win, error) {
	return create(c, mem, nil, info)
}

const maxRegion = 1 << 48 // bytes; so that sums stay far from overflow

// group is what the ranks of a process-memory window share.
type group struct {
	mem   [][]byte     // by rank; each set by its rank before the second exchange in create, constant after it
	locks []sync.Mutex // by rank: Accumulate on its region
}

// groups holds the groups that are being made. An entry leaves when all ranks have found it.
var groups sync.Map // random id → *group

// create agrees on a window in two exchanges: what each rank brings, and whether each rank found the group.
func create[T any](c *comm.Comm, mem []T, bad error, infos []comm.Info) (*Win, error) {
	fail := func(err error) (*Win, error) {
		return nil, &Error{Op: "create window", Rank: c.Rank(), Peer: NoPeer, Err: err}
	}
	buf := comm.Of(mem)
	type offer struct{ size, unit, code, id int64 }
	mine := offer{size: int64(buf.Bytes()), unit: int64(max(1, buf.ElemSize()))}
	switch {
	case bad != nil:
		mine.code = codeSize
	case buf.Err() != nil:
		bad, mine.code = buf.Err(), codeType
	}
	if c.Rank() == 0 {
		mine.id = newGroupID()
		groups.Store(mine.id, &group{mem: make([][]byte, c.Size()), locks: make([]sync.Mutex, c.Size())})
		defer groups.Delete(mine.id)
	}
	offers := make([]offer, c.Size())
	if err := c.Allgather(comm.Of([]offer{mine}), comm.Of(offers)); err != nil {
		return fail(err)
	}
	for r, o := range offers {
		if o.code != 0 {
			return fail(errors.Join(bad, fmt.Errorf("%w: rank %d brings memory that cannot be used", codeErrors[o.code], r)))
		}
	}
	b := &memory{}
	code := []int64{0}
	if g, ok := groups.Load(offers[0].id); ok {
		b.g = g.(*group)
		b.g.mem[c.Rank()], _ = buf.Contiguous()
	} else {
		code[0] = 1
	}
	codes := make([]int64, c.Size())
	if err := c.Allgather(comm.Of(code), comm.Of(codes)); err != nil {
		return fail(err)
	}
	for r, code := range codes {
		if code != 0 {
			return fail(fmt.Errorf("%w: process memory of ranks in several processes (rank %d)", ErrUnsupported, r))
		}
	}
	for _, o := range offers {
		b.regions = append(b.regions, Region{Size: int(o.size), Unit: int(o.unit)})
	}
	var info comm.Info
	for _, in := range infos {
		for _, k := range in.Keys() {
			info.Set(k, in.Get(k))
		}
	}
	return New(c, b, info)
}

const (
	codeSize = 1 + iota
	codeType
)

var codeErrors = map[int64]error{codeSize: ErrSize, codeType: comm.ErrType}

func newGroupID() int64 {
	var b [8]byte
	rand.Read(b[:]) // never fails: the runtime ends the program instead
	return int64(binary.NativeEndian.Uint64(b[:]))
}

// memory is the backing of process memory: every region is in this address space, so an operation is one copy, and
// complete when it returns.
type memory struct {
	g       *group
	regions []Region
}

func (m *memory) Regions() []Region { return m.regions }

func (m *memory) Put(rank, off int, src comm.Buffer) error {
	src.CopyToBytes(m.g.mem[rank][off:], 0)
	return nil
}

func (m *memory) Get(rank, off int, dst comm.Buffer) error {
	dst.CopyFromBytes(m.g.mem[rank][off:], 0)
	return nil
}

func (m *memory) Accumulate(rank, off int, src comm.Buffer, op comm.Op) error {
	l := &m.g.locks[rank]
	l.Lock()
	defer l.Unlock()
	return Apply(m.g.mem[rank][off:off+src.Bytes()], src, op)
}

func (m *memory) Flush(done func(error))  { done(nil) }
func (m *memory) Closed(done func(error)) { done(nil) }
func (m *memory) Free() error             { return nil }
