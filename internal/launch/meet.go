// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"slices"
)

// MaxAddr is the largest address of a fabric in bytes. All addresses of a rank together must be
// smaller than MaxValue.
const MaxAddr = 4096

// Peer has what a rank announces to the others at start-up.
type Peer struct {
	Rank int
	Node NodeID
	// LocalRank is the position among the ranks of the same node, in the order of ranks, and
	// LocalSize is their number.
	LocalRank, LocalSize int
	// PID is the rank's process; it has a meaning for ranks of the same node only.
	PID   int
	Addrs map[string][]byte // address by name of fabric
}

// Meet announces this rank and returns the announcements of all ranks, by rank. addrs are this
// rank's addresses, by name of fabric. Meet is an Exchange: all ranks must call it, and it fails in
// the same cases.
func (c *Client) Meet(ctx context.Context, addrs map[string][]byte) ([]Peer, error) {
	card, err := makeCard(c.node, os.Getpid(), addrs)
	if err = cmp.Or(c.noNode, err); err != nil {
		return nil, c.fail("meet", err)
	}
	cards, err := c.Exchange(ctx, card)
	if err != nil {
		return nil, err
	}
	peers, err := ReadCards(cards)
	return peers, c.fail("meet", err)
}

// MakeCard returns this process's announcement, for jobs without weft's launcher. addrs are as in
// Meet.
func MakeCard(node NodeID, addrs map[string][]byte) ([]byte, error) {
	return makeCard(node, os.Getpid(), addrs)
}

// ReadCards parses the announcements of all ranks, by rank.
func ReadCards(cards [][]byte) (peers []Peer, err error) {
	peers = make([]Peer, len(cards))
	sizes := map[NodeID]int{}
	for r, b := range cards {
		if peers[r], err = readCard(b); err != nil {
			return nil, fmt.Errorf("card of rank %d: %w", r, err)
		}
		p := &peers[r]
		p.Rank, p.LocalRank = r, sizes[p.Node]
		sizes[p.Node]++
	}
	for r := range peers {
		peers[r].LocalSize = sizes[peers[r].Node]
	}
	return peers, nil
}

// A card is the encoded announcement of a rank:
//
//	pid (4 bytes, big endian) | strings: node, then name and address of each fabric, by name
//
// where a string is its length (2 bytes) and its bytes.
func makeCard(node NodeID, pid int, addrs map[string][]byte) ([]byte, error) {
	b := binary.BigEndian.AppendUint32(nil, uint32(pid))
	str := func(s []byte) {
		b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
		b = append(b, s...)
	}
	str([]byte(node))
	for _, name := range slices.Sorted(maps.Keys(addrs)) {
		if name == "" || len(name) > MaxKey || len(addrs[name]) > MaxAddr {
			return nil, fmt.Errorf("%w: an address of %d bytes under a name of %d; at most %d and %d are legal", ErrLimit, len(addrs[name]), len(name), MaxAddr, MaxKey)
		}
		str([]byte(name))
		str(addrs[name])
	}
	if len(b) > MaxValue {
		return nil, fmt.Errorf("%w: %d bytes of addresses; at most %d are legal", ErrLimit, len(b), MaxValue)
	}
	return b, nil
}

func readCard(b []byte) (p Peer, err error) {
	bad := fmt.Errorf("%w: a card of %d bytes", ErrProtocol, len(b))
	if len(b) < 4 {
		return p, bad
	}
	p.PID = int(int32(binary.BigEndian.Uint32(b)))
	b = b[4:]
	str := func(limit int) (s []byte, ok bool) {
		if len(b) < 2 {
			return nil, false
		}
		n := int(binary.BigEndian.Uint16(b))
		if n > limit || n > len(b)-2 {
			return nil, false
		}
		s, b = b[2:2+n], b[2+n:]
		return s, true
	}
	node, ok := str(MaxKey)
	if !ok || len(node) == 0 || p.PID <= 0 {
		return p, bad
	}
	p.Node, p.Addrs = NodeID(node), map[string][]byte{}
	for last := ""; len(b) > 0; {
		name, ok := str(MaxKey)
		if !ok || string(name) <= last { // sorted, and so none twice, and none empty
			return p, bad
		}
		if p.Addrs[string(name)], ok = str(MaxAddr); !ok {
			return p, bad
		}
		last = string(name)
	}
	return p, nil
}
