// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm/internal/consensus"
	"weft/comm/internal/mem"
	"weft/internal/fabric"
)

func TestHeaderRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 1000 {
		h := Header{Proto: RTS, Elem: mem.Kind(rng.IntN(int(mem.NumKinds))), ElemSize: rng.Uint32(), Ctx: rng.Uint64(), Src: int32(rng.Uint32()), Tag: int32(rng.Uint32()),
			Seq: rng.Uint32(), Length: rng.Uint64(), Aux: rng.Uint64()}
		w := h.Pack()
		var g Header
		g.Unpack(&w)
		require.Equal(t, h, g)
	}
}

// A frame that is no message of an agreement is refused, and the error says what is wrong. The
// first and last legal values are accepted.
func TestAgreementFramesAreChecked(t *testing.T) {
	const n = 9 // two bytes a set
	m := &consensus.Message{Phase: consensus.PhaseJoin, By: -1, Value: &consensus.Value{Kind: consensus.Shrink, Flags: 5, Ctx: 1<<32 | 8, Lost: consensus.NewMembers(n), Acked: consensus.NewMembers(n)}}
	for what, x := range map[string]struct {
		edit func(f *fabric.Frame)
		says string
	}{
		"as it is":       {func(*fabric.Frame) {}, ""},
		"no phase":       {func(f *fabric.Frame) { f.Head[3] &^= 0xff }, "unknown phase 0 "},
		"the last phase": {func(f *fabric.Frame) { f.Head[3] = Agreeing.Word() | uint64(consensus.PhaseCommit) }, ""},
		"one phase more": {func(f *fabric.Frame) { f.Head[3] = Agreeing.Word() | uint64(consensus.PhaseCommit+1) }, "unknown phase 5 "},
		"the first rank": {func(f *fabric.Frame) { f.Head[1] = 0 }, ""},
		"the last rank":  {func(f *fabric.Frame) { f.Head[1] = n - 1 }, ""},
		"no rank":        {func(f *fabric.Frame) { f.Head[1] = n }, "of rank 9 to an agreement of 9"},
		"less than none": {func(f *fabric.Frame) { f.Head[1] = 1<<32 - 2 }, "of rank -2 "},
		"too short":      {func(f *fabric.Frame) { f.Data = f.Data[1:] }, "of 5 bytes, not 6"},
		"too long":       {func(f *fabric.Frame) { f.Data = append(f.Data, 0) }, "of 7 bytes, not 6"},
		"no kind":        {func(f *fabric.Frame) { f.Data[0] = 0 }, "unknown kind 0"},
		"the last kind":  {func(f *fabric.Frame) { f.Data[0] = byte(consensus.Mixed) }, ""},
		"one kind more":  {func(f *fabric.Frame) { f.Data[0] = byte(consensus.Mixed + 1) }, "unknown kind 5"},
		"decided":        {func(f *fabric.Frame) { f.Data[1] = 1 }, ""},
		"more than that": {func(f *fabric.Frame) { f.Data[1] = 2 }, "unknown kind 2"},
		"for messages":   {func(f *fabric.Frame) { f.Head[5]++ }, "context 0x100000009, which no communicator has"},
		"of nobody":      {func(f *fabric.Frame) { f.Head[5] = 8 }, "context 0x8, which no communicator has"},
		"not to shrink":  {func(f *fabric.Frame) { f.Data[0], f.Head[5] = byte(consensus.Agree), 9 }, ""},
	} {
		f := PackAgreement(m, 4, 7)
		x.edit(&f)
		got, err := UnpackAgreement(n, &f.Head, f.Data)
		if x.says != "" {
			require.ErrorContains(t, err, x.says, what)
			continue
		}
		require.NoError(t, err, what)
		require.Equal(t, consensus.Phase(f.Head[3]), got.Phase, what)
		require.Equal(t, int(int32(f.Head[1])), got.By, what)
		require.Equal(t, f.Data[1] == 1, got.Decided, what)
	}
	m.Value.Lost.Add(8)
	m.Value.Acked.Add(1)
	m.Decided, m.By = true, 8
	f := PackAgreement(m, 4, 7)
	require.Equal(t, [fabric.HeadWords]uint64{4, 7<<32 | 8, 0, Agreeing.Word() | uint64(consensus.PhaseJoin), 5, 1<<32 | 8}, f.Head)
	again, err := UnpackAgreement(n, &f.Head, f.Data)
	require.NoError(t, err)
	require.Equal(t, *m, again)
	f.Data[2] = 0xff // the value has a copy
	require.Equal(t, *m, again)
}

func FuzzAgreementFrame(f *testing.F) {
	m := &consensus.Message{Phase: consensus.PhaseJoin, By: -1, Value: &consensus.Value{Kind: consensus.Shrink, Flags: 3, Ctx: 1<<32 | 6, Lost: consensus.NewMembers(9), Acked: consensus.NewMembers(9)}}
	x := PackAgreement(m, 2, 7)
	f.Add(x.Head[1], x.Head[3], x.Data)
	f.Add(uint64(1), uint64(0), []byte{1})
	f.Fuzz(func(t *testing.T, w1, w3 uint64, data []byte) {
		head := x.Head
		head[1], head[3] = w1, w3
		if m, err := UnpackAgreement(9, &head, data); err == nil {
			again := PackAgreement(&m, head[0], uint32(w1>>32))
			require.Equal(t, data, again.Data)
			require.Equal(t, head[1], again.Head[1])
		}
	})
}
