// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/internal/fabric/inproc"
)

const testRegion = 1000

// records reads a bundle as a target does, without doing what it says.
func records(b []byte) (text string, err error) {
	epoch, seq, rest, err := openBundle(b)
	if err != nil {
		return "", err
	}
	text = fmt.Sprintf("epoch %d bundle %d\n", epoch, seq)
	for len(rest) > 0 {
		var r record
		var data []byte
		if r, data, rest, err = nextRecord(rest, testRegion); err != nil {
			return text, err
		}
		if r.what != wireMark && (r.n == 0 || r.off+r.n > testRegion || r.off+r.n < r.off) {
			panic("outside of the region")
		}
		if data != nil && uint64(len(data)) != r.n {
			panic("payload of another size")
		}
		text += fmt.Sprintf("%v at %d: %d bytes, tag %d, op %d, %v %q\n", r.what, r.off, r.n, r.tag, r.op, r.kind, data)
	}
	return text, nil
}

func sampleBundle() *bundle {
	b := newBundle()
	copy(b.add(record{what: wirePut, off: 8, n: 3}, 3), "abc")
	b.add(record{what: wireDirect, off: 0, n: 1000, tag: 2}, 0)
	b.add(record{what: wireGet, off: 990, n: 10, tag: 7}, 0)
	copy(b.add(record{what: wireAccumulate, op: 1, kind: comm.Int64, off: 1, n: 8}, 8), "01234567")
	b.add(record{what: wireMark}, 0)
	b.seal(5, 9)
	return b
}

func TestBundleReadsAsItWasWritten(t *testing.T) {
	text, err := records(sampleBundle().bytes())
	require.NoError(t, err)
	require.Equal(t, `epoch 5 bundle 9
put at 8: 3 bytes, tag 0, op 0, none "abc"
direct put at 0: 1000 bytes, tag 2, op 0, none ""
get at 990: 10 bytes, tag 7, op 0, none ""
accumulate at 1: 8 bytes, tag 0, op 1, int64 "01234567"
fence at 0: 0 bytes, tag 0, op 0, none ""
`, text)
}

// Every field that another process has written is checked, and the error says what is wrong.
func TestBadBundlesAreRefused(t *testing.T) {
	one := func(r record, n int) func() []byte {
		return func() []byte {
			b := newBundle()
			b.add(r, n)
			b.seal(1, 1)
			return b.bytes()
		}
	}
	change := func(at int, v byte) func() []byte {
		return func() []byte {
			b := sampleBundle().bytes()
			b[at] = v
			return b
		}
	}
	for want, make := range map[string]func() []byte{
		"a message of 0 bytes":                           func() []byte { return nil },
		`begins with "xRMA"`:                             change(0, 'x'),
		"version 2 of the protocol":                      change(4, 2),
		"says it has":                                    change(24, 1),
		"a record of 8 bytes":                            func() []byte { b := newBundle(); b.n += 8; b.seal(1, 1); return b.bytes() },
		"a record of the unknown kind 0":                 one(record{}, 0),
		"a record of the unknown kind 9":                 one(record{what: 9}, 0),
		"a put of 9 bytes at byte 992":                   one(record{what: wirePut, off: 992, n: 9}, 9),
		"a put of 2 bytes at byte 18446744073709551615":  one(record{what: wirePut, off: math.MaxUint64, n: 2}, 2),
		"a get of 18446744073709551615 bytes at byte 10": one(record{what: wireGet, tag: 1, off: 10, n: math.MaxUint64}, 0),
		"a put of nothing":                               one(record{what: wirePut}, 0),
		"a put of 100 bytes, of which 8 follow":          one(record{what: wirePut, n: 100}, 8),
		"a put with a field that is not zero":            one(record{what: wirePut, n: 1, tag: 4}, 1),
		"a direct put with the tag 3":                    one(record{what: wireDirect, n: 1, tag: 3}, 0),
		"a direct put with the tag 0":                    one(record{what: wireDirect, n: 1}, 0),
		"a direct put with the tag 2147483648":           one(record{what: wireDirect, n: 1, tag: comm.TagUB + 1}, 0),
		"a get with the tag 4":                           one(record{what: wireGet, n: 1, tag: 4}, 0),
		"a get with the tag 4294967295":                  one(record{what: wireGet, n: 1, tag: math.MaxUint32}, 0),
		"operator 0":                                     one(record{what: wireAccumulate, n: 8, kind: comm.Int64}, 8),
		"operator 200":                                   one(record{what: wireAccumulate, n: 8, op: 200, kind: comm.Int64}, 8),
		"operator 5 on elements of none":                 one(record{what: wireAccumulate, n: 8, op: 5, kind: comm.None}, 8),
		"operator 5 on elements of opaque":               one(record{what: wireAccumulate, n: 8, op: 5, kind: comm.Opaque}, 8),
		"elements of kind(77)":                           one(record{what: wireAccumulate, n: 8, op: 1, kind: 77}, 8),
		"sum is not defined for bool":                    one(record{what: wireAccumulate, n: 8, op: 1, kind: comm.Bool}, 8),
		"a fence with a field that is not zero":          one(record{what: wireMark, off: 1}, 0),
		"a fence of the unknown kind 2":                  one(record{what: wireMark, op: uint8(len(fences))}, 0),
		"8 bytes behind a fence":                         one(record{what: wireMark}, 8),
	} {
		_, err := records(make())
		require.ErrorContains(t, err, want)
	}
}

// A record is refused if any byte of a field that it does not use is not zero.
func TestUnusedFieldsAreRefused(t *testing.T) {
	const op, kind, spare, tag, off, n = 1, 2, 3, 4, 8, 16 // where the fields begin
	bytesOf := func(fields ...int) (at []int) {
		for _, f := range fields {
			size := map[int]int{op: 1, kind: 1, spare: 1, tag: 4, off: 8, n: 8}[f]
			for i := range size {
				at = append(at, f+i)
			}
		}
		return at
	}
	for name, row := range map[string]struct {
		r       record
		follows int
		unused  []int
	}{
		"a put":         {record{what: wirePut, n: 8}, 8, bytesOf(op, kind, spare, tag)},
		"an accumulate": {record{what: wireAccumulate, op: 1, kind: comm.Int64, n: 8}, 8, bytesOf(spare, tag)},
		"a direct put":  {record{what: wireDirect, n: 8, tag: 2}, 0, bytesOf(op, kind, spare)},
		"a get":         {record{what: wireGet, n: 8, tag: 1}, 0, bytesOf(op, kind, spare)},
		"a fence":       {record{what: wireMark}, 0, bytesOf(kind, spare, tag, off, n)},
	} {
		for _, at := range append(row.unused, -1) {
			b := newBundle()
			b.add(row.r, row.follows)
			b.seal(1, 1)
			if at < 0 {
				_, err := records(b.bytes())
				require.NoError(t, err, name)
				continue
			}
			for _, v := range []byte{1, 0x80} {
				b.bytes()[headBytes+at] = v
				_, err := records(b.bytes())
				require.ErrorContains(t, err, name+" with a field that is not zero", "byte %d is %#x", at, v)
			}
		}
	}
}

func FuzzBundle(f *testing.F) {
	f.Add(sampleBundle().bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = records(b) // panics if something comes through that must not
	})
}

// What a rank sends that makes no sense ends the run, with an error that names the rank, and
// touches no memory.
func TestHostileRankEndsTheRun(t *testing.T) {
	put := record{what: wirePut, n: 8}
	for what, spoil := range map[string]func(p *port) []byte{
		"garbage": func(*port) []byte { return []byte(strings.Repeat("x", 100)) },
		"range":   func(p *port) []byte { return hostile(p, 0, 1, record{what: wirePut, off: 60, n: 8}, 8) },
		"future":  func(p *port) []byte { return hostile(p, 7, 1, put, 8) },
		"number":  func(p *port) []byte { return hostile(p, 0, 2, put, 8) },
		"odd elements": func(p *port) []byte {
			return hostile(p, 0, 1, record{what: wireAccumulate, op: 1, kind: comm.Int64, n: 7}, 7)
		},
		"long": func(*port) []byte { return make([]byte, bundleBytes+8) },
	} {
		mem := make([]int64, 8)
		err := comm.Run(inproc.Divide(t.Context()), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
			own := make([]int64, 8)
			if c.Rank() == 0 {
				own = mem
			}
			w, err := Create(c, own)
			if err != nil {
				return err
			}
			if c.Rank() == 1 {
				p := w.b.(*memory).p
				if err := p.c.Send(comm.Of(spoil(p)), 0, bundleTag); err != nil {
					return nil // the end was faster
				}
			}
			err = w.Fence(0)
			if err == nil {
				return fmt.Errorf("%s: the fence has no error", what)
			}
			if c.Rank() == 0 && !errors.Is(err, ErrProtocol) {
				return fmt.Errorf("%s: %w", what, err)
			}
			return w.Free()
		})
		require.ErrorIs(t, err, ErrProtocol, what)
		require.ErrorContains(t, err, "target 1", what)
		require.Equal(t, make([]int64, 8), mem, what)
	}
}

// A bundle belongs to the epoch at hand, or to the next one if the rank has ended this one: another
// one is not kept for later, but ends the run before any fence.
func TestBundlesOfOtherEpochs(t *testing.T) {
	put := record{what: wirePut, n: 8}
	for says, send := range map[string]func(p *port) [][]byte{
		"a bundle of epoch 1 in epoch 0": func(p *port) [][]byte { return [][]byte{hostile(p, 1, 1, put, 8)} },
		"a bundle of epoch 0 in epoch 0": func(p *port) [][]byte {
			return [][]byte{hostile(p, 0, 1, record{what: wireMark}, 0), hostile(p, 0, 2, put, 8)}
		},
		"a bundle of epoch 2 in epoch 0": func(p *port) [][]byte {
			return [][]byte{hostile(p, 0, 1, record{what: wireMark}, 0), hostile(p, 2, 2, put, 8)}
		},
	} {
		err := comm.Run(inproc.Divide(t.Context()), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
			w, _, err := Allocate[byte](c, 8)
			if err != nil {
				return err
			}
			p := w.b.(*memory).p
			if c.Rank() == 0 {
				return await("the bundle is refused", func() bool {
					p.mu.Lock()
					defer p.mu.Unlock()
					return p.err != nil
				})
			}
			for _, b := range send(p) {
				if err := p.c.Send(comm.Of(b), 0, bundleTag); err != nil {
					return nil // the end was faster
				}
			}
			<-c.Context().Done()
			return nil
		})
		require.ErrorIs(t, err, ErrProtocol, says)
		require.ErrorContains(t, err, says)
	}
}

// Memory that travels by itself is as long as was agreed, and another length ends the run.
func TestAnswersOfAnotherLength(t *testing.T) {
	const wish = 1<<1 | 1 // the tag of a lane's first
	for says, row := range map[string]struct {
		send func(p *port) error // by rank 1
		call func(w *Win) error  // by rank 0
	}{
		"7 bytes in answer to a get of 8": {
			func(p *port) error { return p.c.Send(comm.Of(make([]byte, 7)), 0, wish) },
			func(w *Win) error { return w.Get(comm.Of(make([]byte, 8)), 1, 0) },
		},
		"0 bytes in answer to a get of 8": {
			func(p *port) error { return p.c.Send(comm.Buffer{}, 0, wish) },
			func(w *Win) error { return w.Get(comm.Of(make([]byte, 8)), 1, 0) },
		},
		"7 bytes for a put of 8": {
			func(p *port) error {
				if err := p.c.Send(comm.Of(make([]byte, 7)), 0, 2); err != nil {
					return err
				}
				return p.c.Send(comm.Of(hostile(p, 1, 2, record{what: wireDirect, tag: 2, n: 8}, 0)), 0, bundleTag)
			},
			func(*Win) error { return nil },
		},
	} {
		err := comm.Run(inproc.Divide(t.Context()), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
			w, _, err := Allocate[byte](c, 16)
			if err != nil {
				return err
			}
			if err := w.Fence(0); err != nil {
				return err
			}
			p := w.b.(*memory).p
			if c.Rank() == 1 {
				if err := errors.Join(row.send(p), c.Barrier()); err != nil {
					return nil // the end was faster
				}
				<-c.Context().Done()
				return nil
			}
			if err := errors.Join(c.Barrier(), row.call(w)); err != nil {
				return err
			}
			return await("the answer is refused", func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return p.err != nil
			})
		})
		require.ErrorIs(t, err, ErrProtocol, says)
		require.ErrorContains(t, err, says)
	}
}

func hostile(p *port, epoch, seq uint64, r record, n int) []byte {
	b := newBundle()
	for i := range b.add(r, n) {
		b.memory()[headBytes+recordBytes+i] = 0xff
	}
	b.seal(epoch, seq)
	return b.bytes()
}
