// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"weft/comm"
)

// The wire format between ranks of different processes, version 1. Numbers are little endian. A
// packet is a message. It begins with a head:
//
//	bytes 0–3    "wRMA"
//	4–7          version
//	8–15         epoch: number of fences that the sender has completed
//	16–23        number of the packet in its channel, from 1
//	24–31        size of the packet in bytes
//
// Commands follow. A command has 24 bytes, then its payload, padded to a multiple of 8:
//
//	byte 0       kind of command (wireKind)
//	1            operator; of a mark, 1 if its fence is that of Free
//	2            element kind
//	3            0
//	4–7          tag of the message that belongs to the command, or 0
//	8–15         offset in the receiver's region
//	16–23        bytes
const (
	wireVersion  = 1
	wireMagic    = "wRMA"
	headBytes    = 32
	commandBytes = 24

	// packetBytes is small enough for every present fabric to carry a packet without a rendezvous.
	packetBytes = 16 << 10
	// inlineBytes is the largest put whose payload is copied into a packet. It is a guess: a second
	// message and its rendezvous cost about as much as two copies of that size.
	inlineBytes = 8 << 10
	// maxElement is the largest element that fits into one packet.
	maxElement = packetBytes - headBytes - commandBytes
)

// wireKind is the kind of a command.
type wireKind uint8

const (
	wirePut        wireKind = 1 + iota // with payload
	wireDirect                         // a put whose payload is a separate message
	wireGet                            // to be answered by a message
	wireAccumulate                     // with payload
	wireMark                           // a fence: the last command of its epoch and of its packet
)

func (k wireKind) String() string {
	if k < wirePut || k > wireMark {
		return fmt.Sprintf("command of the unknown kind %d", uint8(k))
	}
	return [...]string{"put", "direct put", "get", "accumulate", "fence"}[k-wirePut]
}

// withArticle is String with an article, for errors.
func (k wireKind) withArticle() string {
	if k == wireAccumulate {
		return "an accumulate"
	}
	return "a " + k.String()
}

func wireOp(op comm.Op) uint8 { return uint8(slices.Index(wireOps[1:], op) + 1) }

type command struct {
	what wireKind
	op   uint8
	kind comm.Kind
	tag  uint32
	off  uint64
	n    uint64
}

// packet is the memory of one packet.
type packet struct {
	words [packetBytes / 8]uint64 // so that payloads are aligned
	n     int                     // bytes in use
}

var packets = sync.Pool{New: func() any { return new(packet) }}

func newPacket() *packet {
	b := packets.Get().(*packet)
	b.n = headBytes
	return b
}

func (b *packet) memory() []byte { return wordBytes(b.words[:]) }
func (b *packet) bytes() []byte  { return b.memory()[:b.n] }

// room is the largest payload, in bytes, of a command that is added now. It is negative if no
// command fits.
func (b *packet) room() int { return packetBytes - b.n - commandBytes }

// add appends a command and returns the memory for its payload of n bytes.
func (b *packet) add(cmd command, n int) []byte {
	m := b.memory()[b.n:]
	m[0], m[1], m[2], m[3] = byte(cmd.what), cmd.op, byte(cmd.kind), 0
	binary.LittleEndian.PutUint32(m[4:], cmd.tag)
	binary.LittleEndian.PutUint64(m[8:], cmd.off)
	binary.LittleEndian.PutUint64(m[16:], cmd.n)
	end := commandBytes + (n+7)&^7
	clear(m[commandBytes+n : end])
	b.n += end
	return m[commandBytes : commandBytes+n]
}

// seal writes the head.
func (b *packet) seal(epoch, seq uint64) {
	m := b.memory()
	copy(m, wireMagic)
	binary.LittleEndian.PutUint32(m[4:], wireVersion)
	binary.LittleEndian.PutUint64(m[8:], epoch)
	binary.LittleEndian.PutUint64(m[16:], seq)
	binary.LittleEndian.PutUint64(m[24:], uint64(b.n))
}

// parsePacket checks the head of a packet that has arrived, and returns its commands.
func parsePacket(b []byte) (epoch, seq uint64, commands []byte, err error) {
	switch {
	case len(b) < headBytes:
		err = fmt.Errorf("a message of %d bytes; a packet has %d or more", len(b), headBytes)
	case string(b[:4]) != wireMagic:
		err = fmt.Errorf("a message that begins with %q; a packet begins with %q", b[:4], wireMagic)
	case binary.LittleEndian.Uint32(b[4:]) != wireVersion:
		err = fmt.Errorf("version %d of the protocol; this program has version %d", binary.LittleEndian.Uint32(b[4:]), wireVersion)
	case binary.LittleEndian.Uint64(b[24:]) != uint64(len(b)):
		err = fmt.Errorf("a packet of %d bytes whose head says %d", len(b), binary.LittleEndian.Uint64(b[24:]))
	default:
		return binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]), b[headBytes:], nil
	}
	return 0, 0, nil, err
}

// nextCommand splits the first command from b. region is the size of the receiver's region in
// bytes. nextCommand has checked every field of the command that it returns; data, the payload,
// lies in b.
func nextCommand(b []byte, region int) (cmd command, data, rest []byte, err error) {
	if len(b) < commandBytes {
		return cmd, nil, nil, fmt.Errorf("a command of %d bytes; a command has %d or more", len(b), commandBytes)
	}
	cmd = command{what: wireKind(b[0]), op: b[1], kind: comm.Kind(b[2]), tag: binary.LittleEndian.Uint32(b[4:]),
		off: binary.LittleEndian.Uint64(b[8:]), n: binary.LittleEndian.Uint64(b[16:])}
	unused := b[3]
	b = b[commandBytes:]
	follows := 0
	switch cmd.what {
	case wirePut:
		follows, unused = 1, unused|cmd.op|byte(cmd.kind)|byte(min(cmd.tag, 1))
	case wireAccumulate:
		follows, unused = 1, unused|byte(min(cmd.tag, 1))
		if err := cmd.checkOp(); err != nil {
			return cmd, nil, nil, err
		}
	case wireDirect, wireGet:
		unused |= cmd.op | byte(cmd.kind)
		if cmd.tag == 0 || cmd.tag > comm.TagUB || (cmd.what == wireGet) != (cmd.tag%2 == 1) {
			return cmd, nil, nil, fmt.Errorf("%s with the tag %d", cmd.what.withArticle(), cmd.tag)
		}
	case wireMark:
		if int(cmd.op) >= len(fenceNames) {
			return cmd, nil, nil, fmt.Errorf("a fence of the unknown kind %d", cmd.op)
		}
		unused |= byte(cmd.kind) | byte(min(cmd.tag, 1)) | byte(min(cmd.off, 1)) | byte(min(cmd.n, 1))
		if len(b) != 0 {
			return cmd, nil, nil, fmt.Errorf("%d bytes after a fence; a fence is the last command of its packet", len(b))
		}
	default:
		return cmd, nil, nil, fmt.Errorf("%s", cmd.what.withArticle())
	}
	switch {
	case unused != 0:
		return cmd, nil, nil, fmt.Errorf("%s with a field that is not zero", cmd.what.withArticle())
	case cmd.off > uint64(region) || cmd.n > uint64(region)-cmd.off:
		return cmd, nil, nil, fmt.Errorf("%s of %d bytes at byte %d of a region of %d", cmd.what.withArticle(), cmd.n, cmd.off, region)
	case cmd.n == 0 && cmd.what != wireMark:
		return cmd, nil, nil, fmt.Errorf("%s of nothing", cmd.what.withArticle())
	}
	if follows == 0 {
		return cmd, nil, b, nil
	}
	if cmd.n > uint64(len(b)) || (cmd.n+7)&^7 > uint64(len(b)) {
		return cmd, nil, nil, fmt.Errorf("%s of %d bytes, with %d bytes of payload", cmd.what.withArticle(), cmd.n, len(b))
	}
	return cmd, b[:cmd.n:cmd.n], b[(cmd.n+7)&^7:], nil
}

func (cmd *command) checkOp() error {
	if cmd.op == 0 || int(cmd.op) >= len(wireOps) || cmd.kind == comm.None || cmd.kind >= comm.Opaque {
		return fmt.Errorf("an accumulate with operator %d on elements of %v", cmd.op, cmd.kind)
	}
	return checkOp(wireOps[cmd.op], cmd.kind)
}
