// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm/internal/match"
)

// Messages and receives, with and without wildcards, are matched by MPI's rules in every order in
// which they can come. An oracle with two lists knows what each receive gets, which probes find
// what, and which synchronous sends are not over.
func TestOrders(t *testing.T) {
	ways := map[string]func(ctx context.Context, cfg Config, body func(c *Comm) error) error{"tcp": runTCP}
	for how, run := range runners {
		ways[how] = run
	}
	for how, run := range ways {
		t.Run(how, func(t *testing.T) {
			require.NoError(t, driven(run, Config{Ranks: 3, EagerLimit: 256}, allOrders))
			requireNoRankGoroutines(t)
		})
	}
}

// driven runs a body on one goroutine that has the communicators of all ranks, and a second
// communicator of each.
func driven(run func(context.Context, Config, func(c *Comm) error) error, cfg Config, body func(c, fence []*Comm) error) error {
	c, fence := make([]*Comm, cfg.Ranks), make([]*Comm, cfg.Ranks)
	var here sync.WaitGroup
	here.Add(cfg.Ranks)
	over := make(chan struct{})
	return run(context.Background(), cfg, func(own *Comm) error {
		dup, err := own.Dup()
		c[own.Rank()], fence[own.Rank()] = own, dup
		here.Done()
		if err != nil || own.Rank() != 0 {
			<-over
			return err
		}
		defer close(over)
		here.Wait()
		return body(c, fence)
	})
}

// allOrders runs all programs of four steps with few keys, and a random sample of longer ones.
func allOrders(c, fence []*Comm) error {
	few := []orderStep{
		{false, match.Key{Src: 1, Tag: 0}}, {false, match.Key{Src: match.Wild, Tag: 0}},
		{false, match.Key{Src: 1, Tag: match.Wild}}, {false, match.Key{Src: match.Wild, Tag: match.Wild}},
		{true, match.Key{Src: 1, Tag: 0}}, {true, match.Key{Src: 1, Tag: 1}}, {true, match.Key{Src: 2, Tag: 0}},
	}
	const length = 4
	n := 1
	for range length {
		n *= len(few)
	}
	for seed := range n + 200 {
		o := &orders{c: c, fence: fence, rng: rand.New(rand.NewPCG(uint64(seed), 1))}
		var steps []orderStep
		if seed < n {
			for x := seed; len(steps) < length; x /= len(few) {
				steps = append(steps, few[x%len(few)])
			}
		} else {
			for range 5 + o.rng.IntN(30) {
				k := match.Key{Src: int32(o.rng.IntN(3)), Tag: int32(o.rng.IntN(3))}
				message := o.rng.IntN(2) == 0
				if !message {
					k = k.In(o.rng.IntN(match.Classes))
				}
				steps = append(steps, orderStep{message, k})
			}
		}
		if err := o.run(steps); err != nil {
			return fmt.Errorf("program %d, %v: %w", seed, steps, err)
		}
	}
	return nil
}

// wants is the rule, as the standard has it: a receive takes a message of its source and tag, or of
// any.
func wants(r, m match.Key) bool {
	return r.Ctx == m.Ctx && (r.Src == match.Wild || r.Src == m.Src) && (r.Tag == match.Wild || r.Tag == m.Tag)
}

// orderStep is a message that comes, or a receive.
type orderStep struct {
	message bool
	key     match.Key // its context is not used
}

// orders is the oracle, and the ranks that it checks.
type orders struct {
	c, fence []*Comm // by rank
	rng      *rand.Rand
	msgs     []*orderMessage // not received, oldest first
	posted   []*orderReceive // not matched, oldest first
	over     []*orderReceive // matched
	reqs     []*Request      // of receives, in the order of the calls
}

type orderMessage struct {
	key         match.Key
	id          int32
	n           int // elements
	synchronous bool
	req         *Request
	buf         []int32
}

type orderReceive struct {
	key  match.Key
	req  *Request
	buf  []int32
	as   Buffer
	room int
	want error
	got  *orderMessage
}

func (m *orderMessage) content(i int) int32 { return m.id<<20 ^ int32(i)*0x01010101 ^ 0x5a }

func (m *orderMessage) status() Status {
	return Status{Source: int(m.key.Src), Tag: int(m.key.Tag), Bytes: 4 * m.n}
}

func (o *orders) run(steps []orderStep) error {
	for i, s := range steps {
		var err error
		if s.message {
			err = o.send(int32(i), s.key)
		} else {
			err = o.receive(s.key)
		}
		if err == nil {
			err = o.iprobe()
		}
		if err == nil && len(o.posted) > 0 && o.rng.IntN(8) == 0 {
			err = o.cancel(o.rng.IntN(len(o.posted)))
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	for len(o.posted) > 0 {
		if err := o.cancel(o.rng.IntN(len(o.posted))); err != nil {
			return err
		}
	}
	for len(o.msgs) > 0 {
		if err := cmp.Or(o.receive(match.Key{Src: match.Wild, Tag: match.Wild}), o.iprobe()); err != nil {
			return err
		}
	}
	return o.end()
}

// send sends a message that has arrived when it returns, as have later ones.
func (o *orders) send(id int32, k match.Key) error {
	n := []int{0, 1, 2, 16, 17, 64, 65, 65, 66, 20000}[min(o.rng.IntN(10), o.rng.IntN(12))]
	m := &orderMessage{key: k, id: id, n: n, buf: make([]int32, n)}
	for i := range m.buf {
		m.buf[i] = m.content(i)
	}
	c := o.c[k.Src]
	m.synchronous = n > 64
	switch way := o.rng.IntN(4); {
	case way == 0 && !m.synchronous:
		if err := c.Send(Of(m.buf), 0, int(k.Tag)); err != nil {
			return err
		}
	case way == 1:
		m.synchronous = true
		m.req = c.Issend(Of(m.buf), 0, int(k.Tag))
	default:
		m.req = c.Isend(Of(m.buf), 0, int(k.Tag))
	}
	if !m.synchronous {
		if m.req != nil {
			if ok, _, err := m.req.Test(); !ok || err != nil {
				return fmt.Errorf("a small send is not over at once, error %w", err)
			}
		}
		for i := range m.buf { // the memory is free
			m.buf[i] = -1
		}
	}
	if err := o.fence[k.Src].Send(Buffer{}, 0, 0); err != nil {
		return err
	}
	if _, err := o.fence[0].Recv(Buffer{}, int(k.Src), 0); err != nil {
		return err
	}
	if i := slices.IndexFunc(o.posted, func(r *orderReceive) bool { return wants(r.key, k) }); i >= 0 {
		r := o.posted[i]
		o.posted = slices.Delete(o.posted, i, i+1)
		r.got = m
		o.over = append(o.over, r)
		return nil
	}
	o.msgs = append(o.msgs, m)
	return nil
}

// receive posts a receive, of the size and type of the message if that is known, or not.
func (o *orders) receive(k match.Key) error {
	room := []int{0, 16, 17, 64, 66, 20000, 20001}[o.rng.IntN(7)]
	var m *orderMessage
	i := slices.IndexFunc(o.msgs, func(m *orderMessage) bool { return wants(k, m.key) })
	if i >= 0 {
		m = o.msgs[i]
		o.msgs = slices.Delete(o.msgs, i, i+1)
		room = max(0, m.n-1+o.rng.IntN(3))
	}
	r := &orderReceive{key: k, got: m, room: room, buf: make([]int32, room)}
	r.as = Of(r.buf)
	if o.rng.IntN(8) == 0 {
		r.as, r.want = Of(make([]float32, room)), ErrType
	}
	if m != nil && !m.synchronous && o.rng.IntN(2) == 0 {
		st, err := o.c[0].Recv(r.as, int(k.Src), int(k.Tag))
		return r.check("recv", st, err)
	}
	r.req = o.c[0].Irecv(r.as, int(k.Src), int(k.Tag))
	o.reqs = append(o.reqs, r.req)
	if m == nil {
		o.posted = append(o.posted, r)
	} else {
		o.over = append(o.over, r)
	}
	return nil
}

// iprobe probes for a key, and checks that operations that must still wait do.
func (o *orders) iprobe() error {
	k := match.Key{Src: int32(o.rng.IntN(3)), Tag: int32(o.rng.IntN(2))}.In(o.rng.IntN(match.Classes))
	i := slices.IndexFunc(o.msgs, func(m *orderMessage) bool { return wants(k, m.key) })
	for range 2 {
		here, st, err := o.c[0].Iprobe(int(k.Src), int(k.Tag))
		if err := cmp.Or(err, expect("iprobe", i >= 0, here)); err != nil {
			return err
		}
		if here {
			probed, err := o.c[0].Probe(int(k.Src), int(k.Tag))
			if err := cmp.Or(err, expect("iprobed", o.msgs[i].status(), st), expect("probed", o.msgs[i].status(), probed)); err != nil {
				return err
			}
		}
	}
	for _, m := range o.msgs {
		if m.synchronous {
			if done, _, err := m.req.Test(); done {
				return fmt.Errorf("the send of message %d is over before its receive, error %w", m.id, err)
			}
		}
	}
	for _, r := range o.posted {
		if done, st, err := r.req.Test(); done {
			return fmt.Errorf("receive %v is over without a message: %+v, %w", r.key, st, err)
		}
	}
	return nil
}

func (o *orders) cancel(i int) error {
	r := o.posted[i]
	o.posted = slices.Delete(o.posted, i, i+1)
	if !r.req.Cancel() {
		return fmt.Errorf("receive %v cannot be cancelled", r.key)
	}
	done, st, err := r.req.Test()
	if !errors.Is(err, ErrCancelled) {
		return fmt.Errorf("a cancelled receive: %w", err)
	}
	return cmp.Or(expect("over", true, done), expect("status", Status{Cancelled: true}, st))
}

// end waits for everything, which takes progress at all ranks, and checks the results.
func (o *orders) end() error {
	deadline := time.Now().Add(time.Minute)
	done := func(r *Request) error {
		for !r.Done() {
			for _, r := range o.over {
				r.req.Done()
				if r.got.req != nil {
					r.got.req.Done()
				}
			}
			runtime.Gosched()
			if time.Now().After(deadline) {
				return errors.New("an operation is not over")
			}
		}
		return nil
	}
	for _, r := range o.over {
		if err := done(r.req); err != nil {
			return err
		}
		st, err := r.req.Wait(context.Background())
		if err := r.check("irecv", st, err); err != nil {
			return err
		}
		if s := r.got.req; s != nil {
			if err := done(s); err != nil {
				return err
			}
			if _, err := s.Wait(context.Background()); err != nil {
				return fmt.Errorf("the send of message %d: %w", r.got.id, err)
			}
		}
	}
	o.rng.Shuffle(len(o.reqs), func(i, j int) { o.reqs[i], o.reqs[j] = o.reqs[j], o.reqs[i] })
	var first error
	for _, r := range o.reqs {
		if _, err := r.Wait(context.Background()); first == nil {
			first = err
		}
	}
	here, st, err := o.c[0].Iprobe(AnySource, AnyTag)
	return cmp.Or(err, expect("the error of all", first, WaitAll(context.Background(), o.reqs...)), expect(fmt.Sprintf("left over: %+v", st), false, here))
}

// check compares the result of a receive with the message that it must have got.
func (r *orderReceive) check(op string, st Status, err error) error {
	m := r.got
	if err := expect(fmt.Sprintf("status of receive %v", r.key), m.status(), st); err != nil {
		return err
	}
	n, want := min(m.n, r.room), r.want
	switch {
	case want != nil && m.n == 0:
		want = nil
	case want != nil:
		n = 0
	case m.n > r.room:
		want = ErrTruncated
	}
	var e *Error
	if !errors.Is(err, want) || want != nil && (!errors.As(err, &e) || e.Op != op || e.Peer != int(r.key.Src) || e.Tag != int(r.key.Tag)) {
		return fmt.Errorf("message %d of %d elements into %d: %w, want %w", m.id, m.n, r.room, err, want)
	}
	for i, x := range r.buf {
		switch {
		case i >= n:
			if x != 0 {
				return fmt.Errorf("element %d after message %d of %d is written", i, m.id, n)
			}
		case x != m.content(i):
			return fmt.Errorf("element %d of message %d is %#x, want %#x", i, m.id, x, m.content(i))
		}
	}
	return nil
}
