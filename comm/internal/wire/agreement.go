// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"

	"weft/comm/internal/consensus"
	"weft/internal/fabric"
)

// PackAgreement returns a message of an agreement as a frame. The words of its head are: context;
// number of the agreement and By; –; protocol and phase; flags of the value; context of the value.
// The data is the kind of the value, whether it is decided, and its two sets.
func PackAgreement(m *consensus.Message, ctx uint64, seq uint32) fabric.Frame {
	f := fabric.Frame{Head: [fabric.HeadWords]uint64{ctx, uint64(seq)<<32 | uint64(uint32(m.By)), 0, Agreeing.Word() | uint64(m.Phase), m.Value.Flags, m.Value.Ctx}}
	decided := byte(0)
	if m.Decided {
		decided = 1
	}
	f.Data = append(f.Data, byte(m.Value.Kind), decided)
	f.Data = append(f.Data, m.Value.Lost...)
	f.Data = append(f.Data, m.Value.Acked...)
	return f
}

// UnpackAgreement reads a frame of PackAgreement, of an agreement of n ranks.
func UnpackAgreement(n int, head *[fabric.HeadWords]uint64, data []byte) (m consensus.Message, err error) {
	m = consensus.Message{Phase: consensus.Phase(head[3]), By: int(int32(head[1]))}
	set := consensus.MembersBytes(n)
	switch {
	case m.Phase < 1 || m.Phase > consensus.LastPhase:
		return m, fmt.Errorf("it sends a message of the unknown phase %d of an agreement", m.Phase)
	case m.By < -1 || m.By >= n:
		return m, fmt.Errorf("it sends a value of rank %d to an agreement of %d", m.By, n)
	case len(data) != 2+2*set:
		return m, fmt.Errorf("it sends a value of %d bytes, not %d", len(data), 2+2*set)
	case data[0] < 1 || consensus.Kind(data[0]) > consensus.LastKind || data[1] > 1:
		return m, fmt.Errorf("it sends a value of the unknown kind %d", data[0])
	}
	if consensus.Kind(data[0]) == consensus.Shrink && (head[5]&1 != 0 || head[5]>>32 == 0) {
		return m, fmt.Errorf("it sends a value with the context %#x, which no communicator has", head[5])
	}
	m.Decided = data[1] == 1
	m.Value = &consensus.Value{Kind: consensus.Kind(data[0]), Flags: head[4], Ctx: head[5]}
	m.Value.Lost = append(consensus.Members(nil), data[2:2+set]...)
	m.Value.Acked = append(consensus.Members(nil), data[2+set:]...)
	return m, nil
}
