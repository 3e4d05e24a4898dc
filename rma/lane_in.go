// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"errors"
	"fmt"

	"weft/comm"
)

// listen posts the standing receive and handles what arrives, on the goroutine that brings it, until there is nothing more or
// what there is has to wait for a fence of this rank.
func (l *lane) listen() {
	p := l.p
	marked := false
	for {
		req := p.c.Irecv(comm.Raw(l.in.memory(), comm.Byte), l.rank, bundleTag)
		p.mu.Lock()
		l.req = req
		closed := p.closed
		p.mu.Unlock()
		if closed {
			req.Cancel() // the window is being freed, and has not seen it
			break
		}
		done, st, err := req.Peek()
		if !done {
			req.OnDone(func(err error) {
				if mark, more := l.arrived(req.Status(), err); more {
					l.next(mark)
				}
			})
			break
		}
		mark, more := l.arrived(st, err)
		marked = marked || mark
		if !more {
			break
		}
	}
	if marked {
		p.mu.Lock()
		p.settle()
	}
}

// next goes on to listen after a message. The receive is posted before a fence is completed, whose callbacks may take long.
func (l *lane) next(mark bool) {
	l.listen()
	if mark {
		l.p.mu.Lock()
		l.p.settle()
	}
}

// resume handles the message that was held, and goes on.
func (l *lane) resume() {
	if mark, more := l.handle(); more {
		l.next(mark)
	}
}

// arrived takes the message of the standing receive. mark is whether it ended the rank's epoch; more, whether the next may
// come.
func (l *lane) arrived(st comm.Status, err error) (mark, more bool) {
	switch {
	case err == nil:
	case errors.Is(err, comm.ErrTruncated):
		l.p.broken(l, fmt.Errorf("a message of %d bytes; a bundle has %d or less", st.Bytes, bundleBytes))
		return false, false
	default:
		if !errors.Is(err, comm.ErrCancelled) {
			l.p.lose(l, err)
		}
		return false, false
	}
	l.in.n = st.Bytes
	return l.handle()
}

// handle carries out a bundle, or holds it back if it is of the next epoch.
func (l *lane) handle() (mark, more bool) {
	p := l.p
	epoch, seq, records, err := openBundle(l.in.bytes())
	if err == nil && seq != l.inSeq+1 {
		err = fmt.Errorf("bundle %d after bundle %d", seq, l.inSeq)
	}
	if err != nil {
		p.broken(l, err)
		return false, false
	}
	p.mu.Lock()
	now, marked, lost := p.epoch, l.marked, l.lost
	if epoch == now+1 && marked {
		l.held = true
		p.mu.Unlock()
		return false, false
	}
	p.mu.Unlock()
	if epoch != now || marked {
		if !lost { // fences do not wait for a lost rank, so what it sent before may come late
			p.broken(l, fmt.Errorf("a bundle of epoch %d in epoch %d", epoch, now))
		}
		return false, false
	}
	l.inSeq = seq
	var fence uint8 // of a mark
	for len(records) > 0 {
		var r record
		var data []byte
		if r, data, records, err = nextRecord(records, len(p.mem)); err == nil {
			err = l.perform(&r, data)
		}
		if err != nil {
			p.broken(l, err)
			return false, false
		}
		mark, fence = r.what == wireMark, r.op
	}
	if mark {
		p.mu.Lock()
		if !l.lost {
			l.marked, l.fence = true, fence
			p.marks++
		}
		p.mu.Unlock()
	}
	return mark, true
}

// perform carries out one record, which has been checked.
func (l *lane) perform(r *record, data []byte) error {
	p := l.p
	switch r.what {
	case wirePut:
		copy(p.mem[r.off:], data)
	case wireAccumulate:
		p.lock.Lock()
		defer p.lock.Unlock()
		return Apply(p.mem[r.off:r.off+r.n], comm.Raw(data, r.kind), wireOps[r.op])
	case wireGet:
		p.begin()
		p.c.Isend(comm.Raw(p.mem[r.off:r.off+r.n], comm.Byte), l.rank, int(r.tag)).OnDone(p.end)
	case wireDirect:
		p.begin()
		req := p.c.Irecv(comm.Raw(p.mem[r.off:r.off+r.n], comm.Byte), l.rank, int(r.tag))
		req.OnDone(func(err error) {
			if st := req.Status(); err == nil && uint64(st.Bytes) != r.n {
				err = fmt.Errorf("%d bytes for a put of %d", st.Bytes, r.n)
				p.broken(l, err)
			}
			p.end(err)
		})
	}
	return nil
}
