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

// readPacket reads a packet as a target does, without carrying its commands out.
func readPacket(b []byte) (text string, err error) {
	epoch, seq, rest, err := parsePacket(b)
	if err != nil {
		return "", err
	}
	text = fmt.Sprintf("epoch %d packet %d\n", epoch, seq)
	for len(rest) > 0 {
		var cmd command
		var data []byte
		if cmd, data, rest, err = nextCommand(rest, testRegion); err != nil {
			return text, err
		}
		if cmd.what != wireMark && (cmd.n == 0 || cmd.off+cmd.n > testRegion || cmd.off+cmd.n < cmd.off) {
			panic("outside the region")
		}
		if data != nil && uint64(len(data)) != cmd.n {
			panic("the payload has another size")
		}
		text += fmt.Sprintf("%v at %d: %d bytes, tag %d, op %d, %v %q\n", cmd.what, cmd.off, cmd.n, cmd.tag, cmd.op, cmd.kind, data)
	}
	return text, nil
}

func samplePacket() *packet {
	b := newPacket()
	copy(b.add(command{what: wirePut, off: 8, n: 3}, 3), "abc")
	b.add(command{what: wireDirect, off: 0, n: 1000, tag: 2}, 0)
	b.add(command{what: wireGet, off: 990, n: 10, tag: 7}, 0)
	copy(b.add(command{what: wireAccumulate, op: 1, kind: comm.Int64, off: 1, n: 8}, 8), "01234567")
	b.add(command{what: wireMark}, 0)
	b.seal(5, 9)
	return b
}

func TestPacketReadsAsItWasWritten(t *testing.T) {
	text, err := readPacket(samplePacket().bytes())
	require.NoError(t, err)
	require.Equal(t, `epoch 5 packet 9
put at 8: 3 bytes, tag 0, op 0, none "abc"
direct put at 0: 1000 bytes, tag 2, op 0, none ""
get at 990: 10 bytes, tag 7, op 0, none ""
accumulate at 1: 8 bytes, tag 0, op 1, int64 "01234567"
fence at 0: 0 bytes, tag 0, op 0, none ""
`, text)
}

// Every field that another process has written is checked, and the error says what is wrong.
func TestBadPacketsAreRefused(t *testing.T) {
	one := func(cmd command, n int) func() []byte {
		return func() []byte {
			b := newPacket()
			b.add(cmd, n)
			b.seal(1, 1)
			return b.bytes()
		}
	}
	change := func(at int, v byte) func() []byte {
		return func() []byte {
			b := samplePacket().bytes()
			b[at] = v
			return b
		}
	}
	for want, make := range map[string]func() []byte{
		"a message of 0 bytes":                           func() []byte { return nil },
		`begins with "xRMA"`:                             change(0, 'x'),
		"version 2 of the protocol":                      change(4, 2),
		"whose head says":                                change(24, 1),
		"a command of 8 bytes":                           func() []byte { b := newPacket(); b.n += 8; b.seal(1, 1); return b.bytes() },
		"a command of the unknown kind 0":                one(command{}, 0),
		"a command of the unknown kind 9":                one(command{what: 9}, 0),
		"a put of 9 bytes at byte 992":                   one(command{what: wirePut, off: 992, n: 9}, 9),
		"a put of 2 bytes at byte 18446744073709551615":  one(command{what: wirePut, off: math.MaxUint64, n: 2}, 2),
		"a get of 18446744073709551615 bytes at byte 10": one(command{what: wireGet, tag: 1, off: 10, n: math.MaxUint64}, 0),
		"a put of nothing":                               one(command{what: wirePut}, 0),
		"a put of 100 bytes, with 8 bytes of payload":    one(command{what: wirePut, n: 100}, 8),
		"a put with a field that is not zero":            one(command{what: wirePut, n: 1, tag: 4}, 1),
		"a direct put with the tag 3":                    one(command{what: wireDirect, n: 1, tag: 3}, 0),
		"a direct put with the tag 0":                    one(command{what: wireDirect, n: 1}, 0),
		"a direct put with the tag 2147483648":           one(command{what: wireDirect, n: 1, tag: comm.TagUB + 1}, 0),
		"a get with the tag 4":                           one(command{what: wireGet, n: 1, tag: 4}, 0),
		"a get with the tag 4294967295":                  one(command{what: wireGet, n: 1, tag: math.MaxUint32}, 0),
		"operator 0":                                     one(command{what: wireAccumulate, n: 8, kind: comm.Int64}, 8),
		"operator 200":                                   one(command{what: wireAccumulate, n: 8, op: 200, kind: comm.Int64}, 8),
		"operator 5 on elements of none":                 one(command{what: wireAccumulate, n: 8, op: 5, kind: comm.None}, 8),
		"operator 5 on elements of opaque":               one(command{what: wireAccumulate, n: 8, op: 5, kind: comm.Opaque}, 8),
		"elements of kind(77)":                           one(command{what: wireAccumulate, n: 8, op: 1, kind: 77}, 8),
		"sum is not defined for bool":                    one(command{what: wireAccumulate, n: 8, op: 1, kind: comm.Bool}, 8),
		"a fence with a field that is not zero":          one(command{what: wireMark, off: 1}, 0),
		"a fence of the unknown kind 2":                  one(command{what: wireMark, op: uint8(len(fenceNames))}, 0),
		"8 bytes after a fence":                          one(command{what: wireMark}, 8),
	} {
		_, err := readPacket(make())
		require.ErrorContains(t, err, want)
	}
}

// A command is refused if any byte of a field that the command does not use is not zero.
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
		r       command
		follows int
		unused  []int
	}{
		"a put":         {command{what: wirePut, n: 8}, 8, bytesOf(op, kind, spare, tag)},
		"an accumulate": {command{what: wireAccumulate, op: 1, kind: comm.Int64, n: 8}, 8, bytesOf(spare, tag)},
		"a direct put":  {command{what: wireDirect, n: 8, tag: 2}, 0, bytesOf(op, kind, spare)},
		"a get":         {command{what: wireGet, n: 8, tag: 1}, 0, bytesOf(op, kind, spare)},
		"a fence":       {command{what: wireMark}, 0, bytesOf(kind, spare, tag, off, n)},
	} {
		for _, at := range append(row.unused, -1) {
			b := newPacket()
			b.add(row.r, row.follows)
			b.seal(1, 1)
			if at < 0 {
				_, err := readPacket(b.bytes())
				require.NoError(t, err, name)
				continue
			}
			for _, v := range []byte{1, 0x80} {
				b.bytes()[headBytes+at] = v
				_, err := readPacket(b.bytes())
				require.ErrorContains(t, err, name+" with a field that is not zero", "byte %d is %#x", at, v)
			}
		}
	}
}

func FuzzPacket(f *testing.F) {
	f.Add(samplePacket().bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = readPacket(b) // panics if a check is missing
	})
}

// A packet that breaks the protocol ends the run with an error that names the sender, and touches
// no memory.
func TestHostileRankEndsTheRun(t *testing.T) {
	put := command{what: wirePut, n: 8}
	for what, spoil := range map[string]func(ep *endpoint) []byte{
		"garbage": func(*endpoint) []byte { return []byte(strings.Repeat("x", 100)) },
		"range":   func(ep *endpoint) []byte { return hostile(ep, 0, 1, command{what: wirePut, off: 60, n: 8}, 8) },
		"future":  func(ep *endpoint) []byte { return hostile(ep, 7, 1, put, 8) },
		"number":  func(ep *endpoint) []byte { return hostile(ep, 0, 2, put, 8) },
		"odd elements": func(ep *endpoint) []byte {
			return hostile(ep, 0, 1, command{what: wireAccumulate, op: 1, kind: comm.Int64, n: 7}, 7)
		},
		"long": func(*endpoint) []byte { return make([]byte, packetBytes+8) },
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
				ep := w.b.(*memory).ep
				if err := ep.c.Send(comm.Of(spoil(ep)), 0, packetTag); err != nil {
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

// A packet must belong to the current epoch, or to the next epoch if the rank has ended the current
// one. Any other packet ends the run before any fence.
func TestPacketsOfOtherEpochs(t *testing.T) {
	put := command{what: wirePut, n: 8}
	for says, send := range map[string]func(ep *endpoint) [][]byte{
		"a packet of epoch 1 in epoch 0": func(ep *endpoint) [][]byte { return [][]byte{hostile(ep, 1, 1, put, 8)} },
		"a packet of epoch 0 in epoch 0": func(ep *endpoint) [][]byte {
			return [][]byte{hostile(ep, 0, 1, command{what: wireMark}, 0), hostile(ep, 0, 2, put, 8)}
		},
		"a packet of epoch 2 in epoch 0": func(ep *endpoint) [][]byte {
			return [][]byte{hostile(ep, 0, 1, command{what: wireMark}, 0), hostile(ep, 2, 2, put, 8)}
		},
	} {
		err := comm.Run(inproc.Divide(t.Context()), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
			w, _, err := Allocate[byte](c, 8)
			if err != nil {
				return err
			}
			ep := w.b.(*memory).ep
			if c.Rank() == 0 {
				return await("the packet is refused", func() bool {
					ep.mu.Lock()
					defer ep.mu.Unlock()
					return ep.err != nil
				})
			}
			for _, b := range send(ep) {
				if err := ep.c.Send(comm.Of(b), 0, packetTag); err != nil {
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

// A message with the data of a get or a direct put must have the length that its command says. Any
// other length ends the run.
func TestAnswersOfAnotherLength(t *testing.T) {
	const answerTag = 1<<1 | 1 // the first tag of a channel for answers
	for says, row := range map[string]struct {
		send func(ep *endpoint) error // by rank 1
		call func(w *Win) error       // by rank 0
	}{
		"7 bytes in answer to a get of 8": {
			func(ep *endpoint) error { return ep.c.Send(comm.Of(make([]byte, 7)), 0, answerTag) },
			func(w *Win) error { return w.Get(comm.Of(make([]byte, 8)), 1, 0) },
		},
		"0 bytes in answer to a get of 8": {
			func(ep *endpoint) error { return ep.c.Send(comm.Buffer{}, 0, answerTag) },
			func(w *Win) error { return w.Get(comm.Of(make([]byte, 8)), 1, 0) },
		},
		"7 bytes for a put of 8": {
			func(ep *endpoint) error {
				if err := ep.c.Send(comm.Of(make([]byte, 7)), 0, 2); err != nil {
					return err
				}
				return ep.c.Send(comm.Of(hostile(ep, 1, 2, command{what: wireDirect, tag: 2, n: 8}, 0)), 0, packetTag)
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
			ep := w.b.(*memory).ep
			if c.Rank() == 1 {
				if err := errors.Join(row.send(ep), c.Barrier()); err != nil {
					return nil // the end was faster
				}
				<-c.Context().Done()
				return nil
			}
			if err := errors.Join(c.Barrier(), row.call(w)); err != nil {
				return err
			}
			return await("the answer is refused", func() bool {
				ep.mu.Lock()
				defer ep.mu.Unlock()
				return ep.err != nil
			})
		})
		require.ErrorIs(t, err, ErrProtocol, says)
		require.ErrorContains(t, err, says)
	}
}

func hostile(ep *endpoint, epoch, seq uint64, cmd command, n int) []byte {
	b := newPacket()
	for i := range b.add(cmd, n) {
		b.memory()[headBytes+commandBytes+i] = 0xff
	}
	b.seal(epoch, seq)
	return b.bytes()
}
