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
// displacement unit is the element size. Collective; n may differ between ranks. The ranks may be
// in one process or in several. T must hold no pointers. Errors, the same on all ranks: ErrSize,
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

// Create is Allocate with the caller's memory. Between a rank's call of a fence and the end of its
// next fence, the rank uses only those parts of mem that no other rank uses in that epoch.
func Create[T any](c *comm.Comm, mem []T, info ...comm.Info) (*Win, error) {
	return create(c, mem, nil, info)
}

const maxRegion = 1 << 48 // bytes; keeps sums far from overflow

// shared is the state that the ranks of one process share for a window of process memory.
type shared struct {
	// By rank. Each rank sets its own entry before the second exchange in create; constant after
	// it.
	mem   [][]byte
	locks []sync.Mutex // by rank; Accumulate on the rank's region holds it
}

// beingMade holds the shared states of windows that are being made. An entry is removed after all
// ranks have loaded it.
var beingMade sync.Map // random id → *shared

// create makes a window in two exchanges. In the first, each rank tells its size, unit and errors.
// The second confirms that each rank has loaded the shared state of its process and stored its
// memory there.
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
	leader := 0 // the lowest rank of this process; it makes the shared state
	for !c.Local(leader) {
		leader++
	}
	if leader == c.Rank() {
		var id [8]byte
		rand.Read(id[:]) // never fails: it ends the program instead
		mine.id = int64(binary.NativeEndian.Uint64(id[:]))
		beingMade.Store(mine.id, &shared{mem: make([][]byte, c.Size()), locks: make([]sync.Mutex, c.Size())})
		defer beingMade.Delete(mine.id)
	}
	mine.leader = int64(leader)
	offers := make([]offer, c.Size())
	if err := c.AllgatherFor(comm.ForWindow, comm.Of([]offer{mine}), comm.Of(offers)); err != nil {
		return fail(err)
	}
	b := &memory{}
	together, separate := true, true // all ranks in one process; each in its own
	for r, o := range offers {
		if o.code != 0 {
			return fail(errors.Join(bad, fmt.Errorf("%w: rank %d brings memory that cannot be used", codeErrors[o.code], r)))
		}
		if o.size < 0 || o.size > maxRegion || o.unit < 1 || o.leader < 0 || o.leader > int64(r) {
			return fail(fmt.Errorf("%w: rank %d brings %d bytes in units of %d, led by rank %d", ErrProtocol, r, o.size, o.unit, o.leader))
		}
		b.regions = append(b.regions, Region{Size: int(o.size), Unit: int(o.unit)})
		together = together && o.leader == 0
		separate = separate && o.leader == int64(r)
	}
	s, ok := beingMade.Load(offers[leader].id)
	if !ok {
		return fail(fmt.Errorf("%w: rank %d is said to be in this process, but has stored no state here", ErrProtocol, leader))
	}
	b.shared = s.(*shared)
	region, _ := buf.Contiguous()
	b.shared.mem[c.Rank()] = region
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
		if b.ep, err = newEndpoint(c, region, &b.shared.locks[c.Rank()]); err != nil {
			return fail(err)
		}
	}
	return newWin(c, b, info, separate && !together)
}

// offer is what a rank contributes to the first exchange of create.
type offer struct{ size, unit, code, id, leader int64 }

const (
	codeSize = 1 + iota
	codeType
)

var codeErrors = map[int64]error{codeSize: ErrSize, codeType: comm.ErrType}

func (m *memory) Regions() []Region { return m.regions }

// inOtherProcess reports whether a rank's region is in another process.
func (m *memory) inOtherProcess(rank int) bool { return m.ep != nil && m.ep.channels[rank] != nil }

func (m *memory) Put(rank, off int, src comm.Buffer) error {
	if m.inOtherProcess(rank) {
		return m.ep.put(rank, off, src)
	}
	src.CopyToBytes(m.shared.mem[rank][off:], 0)
	return nil
}

func (m *memory) Get(rank, off int, dst comm.Buffer) error {
	if m.inOtherProcess(rank) {
		return m.ep.get(rank, off, dst)
	}
	dst.CopyFromBytes(m.shared.mem[rank][off:], 0)
	return nil
}

func (m *memory) Accumulate(rank, off int, src comm.Buffer, op comm.Op) error {
	if m.inOtherProcess(rank) {
		return m.ep.accumulate(rank, off, src, op)
	}
	l := &m.shared.locks[rank]
	l.Lock()
	defer l.Unlock()
	return Apply(m.shared.mem[rank][off:off+src.Bytes()], src, op)
}

func (m *memory) Flush(done func(error)) {
	if m.ep != nil {
		m.ep.flush(done)
		return
	}
	done(nil)
}

func (m *memory) Closed(done func(error)) { done(nil) }

func (m *memory) Free() error {
	if m.ep != nil {
		m.ep.close()
	}
	return nil
}
