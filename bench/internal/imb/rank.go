// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package imb

import (
	"context"
	"fmt"

	"weft/comm"
)

// rank is one rank in one row.
type rank struct {
	c    *comm.Comm
	me   int
	n    int
	size int // bytes of a message, or of a part

	out, in   []byte    // send and receive buffers
	outF, inF []float32 // the same for sums
	reqs      []*comm.Request
	ack       []byte
}

func newRank(c *comm.Comm, b *benchmark, size int64) *rank {
	r := &rank{c: c, me: c.Rank(), n: c.Size(), size: int(size), ack: make([]byte, 4), reqs: make([]*comm.Request, 0, 2*inFlight)}
	room := r.size
	if b.parts {
		room *= r.n
	}
	if b.floats {
		r.outF, r.inF = make([]float32, room/4), make([]float32, room/4)
	} else {
		r.out, r.in = make([]byte, room), make([]byte, room)
	}
	return r
}

func (r *rank) sendF() comm.Buffer    { return comm.Of(r.outF) }
func (r *rank) recvF() comm.Buffer    { return comm.Of(r.inF) }
func (r *rank) sendAll() comm.Buffer  { return comm.Of(r.out) }
func (r *rank) recvAll() comm.Buffer  { return comm.Of(r.in) }
func (r *rank) sendPart() comm.Buffer { return comm.Of(r.out[:r.size]) }
func (r *rank) recvPart() comm.Buffer { return comm.Of(r.in[:r.size]) }

func (r *rank) bcastBuffer() comm.Buffer {
	if r.me == 0 {
		return comm.Of(r.out)
	}
	return comm.Of(r.in)
}

func pingPong(r *rank) error {
	switch r.me {
	case 0:
		if err := r.c.Send(comm.Of(r.out), 1, tag); err != nil {
			return err
		}
		_, err := r.c.Recv(comm.Of(r.in), 1, tag)
		return err
	case 1:
		if _, err := r.c.Recv(comm.Of(r.in), 0, tag); err != nil {
			return err
		}
		return r.c.Send(comm.Of(r.out), 0, tag)
	}
	return nil
}

// testLoop is pingPong that receives by a loop of Test.
func testLoop(r *rank) error {
	return r.pingPongBy(func(src int) error {
		q := r.c.Irecv(comm.Of(r.in), src, tag)
		for {
			if done, _, err := q.Test(); done {
				return err
			}
		}
	})
}

// probeLoop is pingPong that learns of a message by a loop of Iprobe.
func probeLoop(r *rank) error {
	return r.pingPongBy(func(src int) error {
		for {
			found, _, err := r.c.Iprobe(src, tag)
			if err != nil {
				return err
			}
			if found {
				_, err := r.c.Recv(comm.Of(r.in), src, tag)
				return err
			}
		}
	})
}

// pingPongBy is pingPong with another way to receive.
func (r *rank) pingPongBy(receive func(src int) error) error {
	if r.me > 1 {
		return nil
	}
	if r.me == 1 {
		if err := receive(0); err != nil {
			return err
		}
		return r.c.Send(comm.Of(r.out), 0, tag)
	}
	if err := r.c.Send(comm.Of(r.out), 1, tag); err != nil {
		return err
	}
	return receive(1)
}

func pingPing(r *rank) error {
	if r.me > 1 {
		return nil
	}
	s := r.c.Isend(comm.Of(r.out), 1-r.me, tag)
	if _, err := r.c.Recv(comm.Of(r.in), 1-r.me, tag); err != nil {
		return err
	}
	_, err := s.Wait(context.Background())
	return err
}

func (r *rank) left() int  { return (r.me + r.n - 1) % r.n }
func (r *rank) right() int { return (r.me + 1) % r.n }

func sendrecv(r *rank) error {
	_, err := r.c.Sendrecv(comm.Of(r.out), r.right(), tag, comm.Of(r.in), r.left(), tag)
	return err
}

func exchange(r *rank) error {
	a, b := r.c.Isend(comm.Of(r.out), r.right(), tag), r.c.Isend(comm.Of(r.out), r.left(), tag)
	if _, err := r.c.Recv(comm.Of(r.in), r.left(), tag); err != nil {
		return err
	}
	if _, err := r.c.Recv(comm.Of(r.in), r.right(), tag); err != nil {
		return err
	}
	return comm.WaitAll(context.Background(), a, b)
}

// pairs returns the number of ranks that have a partner. A partner is half of the ranks away.
func (r *rank) pairs() int { return r.n - r.n%2 }

func (r *rank) partner() (peer int, lower bool) {
	if half := r.pairs() / 2; r.me < half {
		return r.me + half, true
	} else {
		return r.me - half, false
	}
}

// bands moves inFlight messages to the partner, or both ways. The upper rank acknowledges them.
func bands(r *rank, both bool) error {
	if r.me >= r.pairs() {
		return nil
	}
	peer, lower := r.partner()
	r.reqs = r.reqs[:0]
	if !lower || both {
		for range inFlight {
			r.reqs = append(r.reqs, r.c.Irecv(comm.Of(r.in), peer, tag))
		}
	}
	if lower || both {
		for range inFlight {
			r.reqs = append(r.reqs, r.c.Isend(comm.Of(r.out), peer, tag))
		}
	}
	if err := comm.WaitAll(context.Background(), r.reqs...); err != nil {
		return err
	}
	if lower {
		_, err := r.c.Recv(comm.Of(r.ack), peer, tag+1)
		return err
	}
	return r.c.Send(comm.Of(r.ack), peer, tag+1)
}

// startExchange starts a message each way between partners. It returns the request of the receive
// and keeps that of the send in r.reqs.
func startExchange(r *rank) (*comm.Request, error) {
	if r.me >= r.pairs() {
		return nil, nil
	}
	peer, _ := r.partner()
	in := r.c.Irecv(comm.Of(r.in), peer, tag)
	out := r.c.Isend(comm.Of(r.out), peer, tag)
	r.reqs = append(r.reqs[:0], out)
	return in, nil
}

// wait waits for the requests of start.
func (r *rank) wait(q *comm.Request) error {
	if err := comm.WaitAll(context.Background(), q); err != nil {
		return err
	}
	err := comm.WaitAll(context.Background(), r.reqs...)
	r.reqs = r.reqs[:0]
	return err
}

// content is byte i of part p of the data that a rank sends.
func content(rank, p, i int) byte { return byte(17*rank + 31*p + 7*i + i>>8) }

// number is element i of the data that a rank adds. The numbers are small, so sums are exact in
// every order.
func number(rank, i int) float32 { return float32(rank + 1 + i%13) }

// fill writes the contents that verify expects.
func (r *rank) fill(b *benchmark) {
	clear(r.in)
	clear(r.inF)
	for i := range r.outF {
		r.outF[i] = number(r.me, i)
	}
	for at := range r.out {
		r.out[at] = content(r.me, at/max(r.size, 1), at%max(r.size, 1))
	}
}

// verify returns the number of wrong elements in the received data.
func (r *rank) verify(b *benchmark) (bad int64) {
	switch name := b.operation(); name {
	case "reduce", "allreduce", "scan":
		to := r.n
		if name == "scan" {
			to = r.me + 1
		}
		if name == "reduce" && r.me != 0 {
			return 0
		}
		for i, got := range r.inF {
			want := float32(0)
			for k := range to {
				want += number(k, i)
			}
			if got != want {
				bad++
			}
		}
		return bad
	case "allgather", "alltoall", "gather":
		if name == "gather" && r.me != 0 {
			return 0
		}
		for at, got := range r.in {
			from, part := at/r.size, 0
			if name == "alltoall" {
				part = r.me
			}
			if got != content(from, part, at%r.size) {
				bad++
			}
		}
		return bad
	case "scatter":
		return r.differ(0, r.me)
	case "bcast":
		if r.me != 0 {
			return r.differ(0, 0)
		}
	case "pingpong", "pingping", "testloop", "probeloop":
		if r.me < 2 {
			return r.differ(1-r.me, 0)
		}
	case "sendrecv":
		return r.differ(r.left(), 0)
	case "exchange":
		return r.differ(r.right(), 0)
	case "uniband", "biband", "overlap":
		if peer, lower := r.partner(); r.me < r.pairs() && (name != "uniband" || !lower) {
			return r.differ(peer, 0)
		}
	}
	return 0
}

// differ counts the received bytes that differ from a rank's part.
func (r *rank) differ(from, part int) (bad int64) {
	for i, got := range r.in[:r.size] {
		if got != content(from, part, i) {
			bad++
		}
	}
	return bad
}

// check makes one operation and verifies its data at all ranks. It returns a description of the
// wrong data, or "".
func (r *rank) check(b *benchmark) (string, error) {
	r.fill(b)
	if err := r.once(b); err != nil {
		return "", err
	}
	bad, all := []int64{r.verify(b)}, []int64{0}
	if err := r.c.Allreduce(comm.Of(bad), comm.Of(all), comm.Sum); err != nil || all[0] == 0 {
		return "", err
	}
	return fmt.Sprintf("%d elements arrived wrong", all[0]), nil
}

// once makes one operation from start to end.
func (r *rank) once(b *benchmark) error {
	if b.op != nil {
		return b.op(r)
	}
	q, err := b.start(r)
	if err != nil {
		return err
	}
	return r.wait(q)
}
