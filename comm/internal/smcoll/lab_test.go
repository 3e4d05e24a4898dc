// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"errors"
	"fmt"
	"sync/atomic"

	"weft/comm/internal/coll"
	"weft/comm/internal/mem"
)

var errTest = errors.New("of a test")

// lab is the ranks of one communicator, without package comm.
type lab struct {
	ranks []*rank
	// nudge delivers a nudge to a rank; nil: it arrives as soon as it is sent.
	nudge func(to *rank)
}

// rank is the Host of a Member.
type rank struct {
	*Member
	lab       *lab
	hist      coll.History
	mem       []byte // that has its rows; nil: it is not available
	hasFailed atomic.Bool
	failErr   error // guarded by hasFailed
	explains  error // the explanation of a disagreement; nil: what the rank sees of it

	count    uint64 // collectives that may run by messages
	nudged   []int  // ranks that this one has nudged
	asked    []int  // ranks that this one has asked to explain
	compared int    // calls of Compare
}

func (r *rank) Failure() error {
	if r.hasFailed.Load() {
		return r.failErr
	}
	return nil
}

func (r *rank) Fail(what coll.Collective, err error) error { return fmt.Errorf("%v: %w", what, err) }
func (r *rank) Compare()                                   { r.compared++ }
func (r *rank) Number() uint64                             { r.count++; return r.count }
func (r *rank) Watch(ready func() bool)                    { ready() }
func (r *rank) Panic(err error) []byte                     { return []byte(err.Error()) }

func (r *rank) Panicked(at int, text []byte) error {
	return fmt.Errorf("%w at rank %d: %s", coll.ErrOperator, at, text)
}

func (r *rank) Explain(at int, err error) error {
	r.asked = append(r.asked, at)
	if r.explains != nil {
		return r.explains
	}
	return err
}

func (r *rank) Nudge(to int) {
	r.nudged = append(r.nudged, to)
	if r.lab.nudge != nil {
		r.lab.nudge(r.lab.ranks[to])
	} else {
		r.lab.ranks[to].st.Progress()
	}
}

func (r *rank) Lost(at int, err error) error { return fmt.Errorf("rank %d: %w", at, err) }

func (r *rank) Memory(at int) ([]byte, error) {
	if m := r.lab.ranks[at].mem; m != nil {
		return m, nil
	}
	return nil, errTest
}

// memorySize has room for all rows and a staging buffer.
var memorySize = stagingStart + stagingSize + resultSize

// newLab returns n ranks of one process or, if mapped, of n processes of one machine.
func newLab(n int, mapped bool) *lab {
	l := new(lab)
	st := newSegment(n, false)
	for r := range n {
		x := &rank{lab: l}
		if mapped {
			x.mem = make([]byte, memorySize)
			x.Member = NewMapped(n, r, World, x.mem, x, &x.hist, &x.hasFailed, new(Staging))
		} else {
			x.Member = NewMember(st, r, x, &x.hist, &x.hasFailed)
		}
		l.ranks = append(l.ranks, x)
	}
	return l
}

// setFailure fails the rank: none of its collectives can go on.
func (r *rank) setFailure(err error) {
	r.failErr = err
	r.hasFailed.Store(true)
	r.st.Progress()
}

// call returns a collective that is ready for Do or Start.
func (r *rank) call(k coll.Kind, op *coll.Operator, root int, in, out mem.Buffer) *coll.Call {
	d := &coll.Call{Kind: k.MadeAs(), What: coll.NewCollective(k, op, root), Root: root, Op: op, In: in, Out: out}
	if err := d.Check(r.rank, r.st.size); err != nil {
		panic(err)
	}
	if !r.Supports(d) {
		panic(fmt.Sprintf("%v of %d bytes is not supported", d.What, d.Unit))
	}
	return d
}

func (r *rank) barrier() *coll.Call {
	return r.call(coll.Barrier, nil, -1, mem.Buffer{}, mem.Buffer{})
}

func (r *rank) sum(in, out []int64) *coll.Call {
	return r.call(coll.Allreduce, coll.Sum, -1, mem.Of(in), mem.Of(out))
}

// request is a request of a test.
type request struct {
	done     atomic.Int32 // how often the request has completed; written last
	err      error
	messages []coll.Call // the calls of UseMessages
	over     func()      // called at the end; may be nil
}

func (q *request) Complete(err error) {
	q.err = err
	q.done.Add(1)
	if q.over != nil {
		q.over()
	}
}

func (q *request) UseMessages(d *coll.Call) {
	q.messages = append(q.messages, *d)
	q.Complete(nil)
}
