// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Several goroutines of all ranks send to one rank, more than queues and rings hold, from memory
// that they use again at once. Several goroutines there receive, at the same time or when all is
// sent. Each message comes once, whole, and in order.
func TestHammerBacklog(t *testing.T) {
	ways := maps.Clone(runners)
	ways["tcp"] = runTCP
	for how, run := range ways {
		for _, late := range []bool{false, true} {
			b := &backlog{late: late}
			b.sending.Add(backlogRanks * backlogTags)
			require.NoError(t, run(context.Background(), Config{Ranks: backlogRanks}, b.run), "%s, late %v", how, late)
			requireNoRankGoroutines(t)
		}
	}
}

const (
	backlogRanks = 3
	backlogTags  = 3
	backlogPer   = 400  // messages of a sender
	backlogRoom  = 3000 // bytes of the largest
)

type backlog struct {
	late    bool
	sending sync.WaitGroup
	// to receive: messages with tag 1, and fours of those of the other communicator
	rest [2]atomic.Int64
	seen [backlogRanks][backlogTags][backlogPer]atomic.Uint32 // how often a message has come
}

// backlogMessage writes a message into buf: its number, and bytes that depend on the number, the
// sender and the tag.
func backlogMessage(buf []byte, src, tag, i int) []byte {
	m := buf[:[]int{4, 5, smallLen, smallLen + 1, 300, 1000, backlogRoom}[i%7]]
	binary.LittleEndian.PutUint32(m, uint32(i))
	for k := 4; k < len(m); k++ {
		m[k] = byte(src*31 + tag*57 + i*13 + k*7 + k>>8)
	}
	return m
}

func (b *backlog) run(c *Comm) error {
	d, err := c.Dup()
	if err != nil {
		return err
	}
	var errs errorList
	var wg sync.WaitGroup
	start := func(f func() error) {
		wg.Go(func() {
			if err := f(); err != nil {
				errs.add(err)
				c.world.end(err) // the others would wait
			}
		})
	}
	if c.Rank() == 0 {
		b.rest[0].Store(backlogRanks * backlogPer)
		b.rest[1].Store(backlogRanks * backlogPer / 4)
	}
	for tag := range backlogTags {
		start(func() error {
			defer b.sending.Done()
			return b.send([]*Comm{c, c, d}[tag], tag)
		})
	}
	if c.Rank() == 0 {
		if b.late {
			b.sending.Wait()
		}
		for src := range backlogRanks {
			start(func() error { return b.receiveFrom(c, src) })
		}
		for range 2 {
			start(func() error { return b.receiveTag(c) })
			start(func() error { return b.receiveAny(d) })
		}
	}
	wg.Wait()
	return cmp.Or(errors.Join(errs.all...), c.Barrier())
}

type errorList struct {
	mu  sync.Mutex
	all []error // guarded by mu
}

func (l *errorList) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, err)
}

func (b *backlog) send(c *Comm, tag int) error {
	buf := make([]byte, backlogRoom)
	for i := range backlogPer {
		m := backlogMessage(buf, c.Rank(), tag, i)
		var err error
		switch {
		case !b.late && i%5 == 1:
			err = c.Ssend(Of(m), 0, tag)
		case !b.late && i%5 == 3:
			_, err = c.Issend(Of(m), 0, tag).Wait(context.Background())
		case i%2 == 0:
			_, err = c.Isend(Of(m), 0, tag).Wait(context.Background())
		default:
			err = c.Send(Of(m), 0, tag)
		}
		if err != nil {
			return err
		}
	}
	clear(buf)
	return nil
}

// receiveFrom receives all messages of a sender with tag 0.
func (b *backlog) receiveFrom(c *Comm, src int) error {
	buf, next := make([]byte, backlogRoom), 0
	for next < backlogPer {
		if next%3 == 0 {
			if _, err := c.Probe(src, 0); err != nil {
				return err
			}
		}
		st, err := c.Recv(Of(buf), src, 0)
		i, err := b.check(st, err, buf)
		if err := cmp.Or(err, expect("message", next, i), expect("source", src, st.Source)); err != nil {
			return err
		}
		next++
	}
	return nil
}

// receiveTag receives some of the messages with tag 1.
func (b *backlog) receiveTag(c *Comm) error {
	buf, last := make([]byte, backlogRoom), [backlogRanks]int{-1, -1, -1}
	for b.rest[0].Add(-1) >= 0 {
		st, err := c.Recv(Of(buf), AnySource, 1)
		i, err := b.check(st, err, buf)
		if err != nil || i <= last[st.Source] {
			return fmt.Errorf("message %d of rank %d after number %d: %w", i, st.Source, last[st.Source], err)
		}
		last[st.Source] = i
	}
	return nil
}

// receiveAny receives some of the messages of another communicator, four at a time.
func (b *backlog) receiveAny(d *Comm) error {
	last := [backlogRanks]int{-1, -1, -1}
	var bufs [4][backlogRoom]byte
	for b.rest[1].Add(-1) >= 0 {
		reqs := make([]*Request, len(bufs))
		for k := range reqs {
			reqs[k] = d.Irecv(Of(bufs[k][:]), AnySource, AnyTag)
		}
		if err := WaitAll(context.Background(), reqs...); err != nil {
			return err
		}
		for k, r := range reqs {
			st, err := r.Wait(context.Background())
			i, err := b.check(st, err, bufs[k][:])
			if err != nil || i <= last[st.Source] {
				return fmt.Errorf("message %d of rank %d after number %d: %w", i, st.Source, last[st.Source], err)
			}
			last[st.Source] = i
		}
	}
	return nil
}

// check compares a received message with the expected one of its number, and returns the number.
func (b *backlog) check(st Status, err error, buf []byte) (int, error) {
	if err != nil {
		return 0, err
	}
	i := int(binary.LittleEndian.Uint32(buf))
	if i >= backlogPer || !bytes.Equal(backlogMessage(make([]byte, backlogRoom), st.Source, st.Tag, i), buf[:st.Bytes]) {
		return 0, fmt.Errorf("%+v is not message %d", st, i)
	}
	return i, expect("how often it has come", 1, b.seen[st.Source][st.Tag][i].Add(1))
}
