// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFrames(t *testing.T) {
	for _, f := range []frame{
		{kind: rankLeaves},
		{kind: rankPuts, key: "k", value: []byte("value")},
		{kind: jobNotifies, rank: 7, code: -1, id: 1, value: []byte("how")},
		{kind: lastKind, rank: -1, code: 255, id: 1<<64 - 1, key: strings.Repeat("k", MaxKey), value: make([]byte, MaxValue)},
	} {
		got, err := readFrame(bytes.NewReader(f.encode()))
		require.NoError(t, err)
		require.True(t, got.kind == f.kind && got.rank == f.rank && got.code == f.code && got.id == f.id && got.key == f.key)
		require.True(t, bytes.Equal(f.value, got.value))
	}
	good := (&frame{kind: rankPuts, key: "k", value: []byte("value")}).encode()
	for name, spoil := range map[string]func([]byte) []byte{
		"length of nothing": func(b []byte) []byte { b[3] = frameHead - 1; return b },
		"enormous length":   func(b []byte) []byte { b[0] = 0x7f; return b },
		"version":           func(b []byte) []byte { b[4] = Version + 1; return b },
		"kind 0":            func(b []byte) []byte { b[5] = 0; return b },
		"kind too large":    func(b []byte) []byte { b[5] = byte(lastKind) + 1; return b },
		"key too long":      func(b []byte) []byte { b[6] = 1; return b },
		"key over the end":  func(b []byte) []byte { b[7] = 7; return b },
		"cut off":           func(b []byte) []byte { return b[:len(b)-1] },
	} {
		_, err := readFrame(bytes.NewReader(spoil(bytes.Clone(good))))
		require.ErrorIs(t, err, ErrProtocol, name)
	}
	_, err := readFrame(bytes.NewReader(nil))
	require.Equal(t, io.EOF, err, "an end between frames is one")
}

func FuzzDecode(f *testing.F) {
	f.Add((&frame{kind: rankPuts, key: "k", value: []byte("value")}).encode()[4:])
	f.Add((&frame{kind: jobNotifies, rank: 3, code: 9, id: 1, value: []byte("how")}).encode()[4:])
	f.Add([]byte{Version, byte(lastKind)})
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, err := decode(b)
		if err != nil {
			require.ErrorIs(t, err, ErrProtocol)
			return
		}
		require.Equal(t, b, fr.encode()[4:], "what is accepted is what would be sent")
		// No frame harms either side.
		s := newSpace(3)
		_, err = s.join(1)
		require.NoError(t, err)
		for range 2 {
			out, _ := s.handle(1, &fr)
			for _, p := range out {
				require.True(t, p.to >= 0 && p.to < 3)
			}
			if !s.members[1].present() {
				break
			}
		}
		c := &Client{identity: Identity{Rank: 1, Ranks: 3}, gets: map[uint64]chan answer{1: make(chan answer, 1)}, deaths: map[int]*Death{}, round: 1, exchange: make(chan answer, 1), shares: make([][]byte, 3)}
		for range 2 {
			_ = c.handle(&fr)
		}
	})
}

func FuzzCard(f *testing.F) {
	card, err := makeCard("node", 12, map[string][]byte{"shm": {1, 2}, "tcp": []byte("127.0.0.1:1")})
	require.NoError(f, err)
	f.Add(card)
	f.Add(card[:6])
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := readCard(b)
		if err != nil {
			require.ErrorIs(t, err, ErrProtocol)
			return
		}
		again, err := makeCard(p.Node, p.PID, p.Addrs)
		require.NoError(t, err)
		require.Equal(t, b, again)
	})
}

func TestCardLimits(t *testing.T) {
	_, err := makeCard("n", 1, map[string][]byte{"tcp": make([]byte, MaxAddr+1)})
	require.ErrorIs(t, err, ErrLimit)
	_, err = makeCard("n", 1, map[string][]byte{"": nil})
	require.ErrorIs(t, err, ErrLimit)
	many := map[string][]byte{}
	for i := range 17 {
		many[strings.Repeat("x", i+1)] = make([]byte, MaxAddr)
	}
	_, err = makeCard("n", 1, many)
	require.ErrorIs(t, err, ErrLimit)
}

// shake runs a handshake between two sides, each with a secret and a label.
func shake(initiator, acceptor *Secret, label, label2 string) (greetings [2]string, errs [2]error) {
	a, b := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer b.Close()
		g, err := Handshake(b, acceptor, label2, Acceptor, []byte("from the acceptor"))
		greetings[1], errs[1] = string(g), err
	}()
	g, err := Handshake(a, initiator, label, Initiator, []byte("from the initiator"))
	greetings[0], errs[0] = string(g), err
	_ = a.Close()
	<-done
	return
}

func TestHandshake(t *testing.T) {
	s := newSecret()
	got, errs := shake(&s, &s, "a", "a")
	require.Equal(t, [2]error{}, errs)
	require.Equal(t, [2]string{"from the acceptor", "from the initiator"}, got)

	other := newSecret()
	require.NotEqual(t, s, other)
	_, errs = shake(&s, &other, "a", "a")
	require.ErrorIs(t, errs[1], ErrSecret)
	require.Error(t, errs[0], "and gets no proof")
	_, errs = shake(&s, &s, "a", "b")
	require.ErrorIs(t, errs[1], ErrSecret, "a proof is valid for one label only")

	_, err := Handshake(nil, &s, "a", Initiator, make([]byte, maxGreeting+1))
	require.ErrorIs(t, err, ErrLimit)
	require.NotContains(t, s.String(), string(s[:]))
}

// The messages that a side of a handshake refuses.
func TestHandshakeRefuses(t *testing.T) {
	s := newSecret()
	hello := makeHello(Initiator, nil)
	for name, row := range map[string]struct {
		spoil func([]byte) []byte
		want  string
	}{
		"something else": {func(b []byte) []byte { copy(b, "GET "); return b }, "does not begin"},
		"reflection":     {func(b []byte) []byte { b[5] = byte(Acceptor); return b }, "does not begin"},
		"version":        {func(b []byte) []byte { b[4] = 9; return b }, "version 9"},
		"greeting":       {func(b []byte) []byte { b[6] = 255; return b }, "greeting of"},
		"no proof":       {func(b []byte) []byte { return append(b, make([]byte, 32)...) }, "secret"},
	} {
		var sent bytes.Buffer
		_, err := Handshake(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(row.spoil(bytes.Clone(hello))), &sent}, &s, "a", Acceptor, nil)
		require.ErrorContains(t, err, row.want, name)
		require.LessOrEqual(t, sent.Len(), helloSize, "%s: no proof was sent", name)
	}
}

func FuzzHandshake(f *testing.F) {
	f.Add(append(makeHello(Initiator, []byte("x")), make([]byte, 32)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newSecret()
		var sent bytes.Buffer
		_, err := Handshake(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(b), &sent}, &s, "a", Acceptor, nil)
		require.Error(t, err, "no one guesses a proof")
		require.LessOrEqual(t, sent.Len(), helloSize)
	})
}
