// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The formats between processes of different builds stay the same, byte by byte, unless Version
// changes.
func TestFormatsStay(t *testing.T) {
	f := frame{kind: jobNotifies, rank: -2, code: 3, id: 1 << 40, key: "key", value: []byte("value")}
	require.Equal(t, "0000001c020d0003fffffffe0000000300000100000000006b657976616c7565", hex.EncodeToString(f.encode()))
	card, err := makeCard("node", 258, map[string][]byte{"b": {1, 2}, "a": nil})
	require.NoError(t, err)
	require.Equal(t, "0000010200046e6f64650001610000000162"+"00020102", hex.EncodeToString(card))
	hello := makeHello(Acceptor, []byte("me"))
	require.Equal(t, "776566740202"+"0002", hex.EncodeToString(hello[:8]))
	require.Equal(t, "me", string(hello[helloSize:]))
	require.NotEqual(t, hello[8:helloSize], makeHello(Acceptor, nil)[8:helloSize])

	var s Secret
	for i := range s {
		s[i] = byte(i)
	}
	hellos := [2][]byte{[]byte("hello of the initiator"), []byte("hello of the acceptor")}
	require.Equal(t, "1c535685a65df7ba228454224a4d057da8223b84fa37e70dd60f92f40d100a8c", hex.EncodeToString(proof(&s, "label", Initiator, hellos)))
	require.Equal(t, "591b6c2b917f941b432ea96163f8b048105ce5427c0ad65a0556566de58698c3", hex.EncodeToString(proof(&s, "label", Acceptor, hellos)))
	key := Key(s)
	ofJob := key.secret(newTestID)
	require.Equal(t, "860834514849906c34d0955f0c5100d850918973d4af668d9a7a4b81fcd70f7a", hex.EncodeToString(ofJob[:]))
	require.Equal(t, "(secret) (secret) (key) (key)", fmt.Sprintf("%v %#v %v %#v", s, s, key, key))
	require.Equal(t, []Side{Acceptor, Initiator}, []Side{Initiator.other(), Acceptor.other()})
}

// A frame is legal up to each of its bounds and not beyond. Its length is checked before the rest
// is read or memory is allocated for it.
func TestBoundsOfFrames(t *testing.T) {
	raw := func(size, key int) []byte {
		b := make([]byte, size)
		if size >= frameHead {
			b[0], b[1] = Version, byte(rankPuts)
			binary.BigEndian.PutUint16(b[2:], uint16(key))
		}
		return b
	}
	for _, row := range []struct {
		size, key int
		wrong     string
	}{
		{0, 0, "a frame of 0 bytes"}, {frameHead - 1, 0, fmt.Sprintf("a frame of %d bytes", frameHead-1)}, {frameHead, 0, ""}, {frameHead + 1, 0, ""},
		{frameHead, 1, "a key of 1 bytes and 0 bytes in all"}, {frameHead + 1, 1, ""}, {frameHead + 1, 2, "a key of 2 bytes and 1 bytes in all"},
		{frameHead + MaxKey, MaxKey, ""}, {frameHead + MaxKey + 1, MaxKey, ""}, {frameHead + MaxKey + 1, MaxKey + 1, fmt.Sprintf("a key of %d bytes", MaxKey+1)},
		{frameHead + MaxValue, 0, ""}, {frameHead + MaxValue + 1, 0, fmt.Sprintf("0 bytes and %d bytes in all", MaxValue+1)}, {frameHead + MaxValue + 1, 1, ""},
		{maxFrame, MaxKey, ""}, {maxFrame, MaxKey - 1, "in all"}, {maxFrame + 1, MaxKey, fmt.Sprintf("a frame of %d bytes", maxFrame+1)},
	} {
		f, err := decode(raw(row.size, row.key))
		if row.wrong != "" {
			require.ErrorIs(t, err, ErrProtocol, row)
			require.ErrorContains(t, err, row.wrong)
			continue
		}
		require.NoError(t, err, row)
		require.Equal(t, [2]int{row.key, row.size - frameHead - row.key}, [2]int{len(f.key), len(f.value)})
	}
	for k := range 256 {
		b := raw(frameHead, 0)
		b[1] = byte(k)
		_, err := decode(b)
		require.Equal(t, k >= 1 && k <= int(lastKind), err == nil, "kind %d", k)
	}
	for length, says := range map[uint32]string{0: "a frame of 0 bytes", frameHead - 1: "a frame of", frameHead: "cut off: ", maxFrame: "cut off: ", maxFrame + 1: "a frame of", 1<<32 - 1: "a frame of 4294967295 bytes"} {
		_, err := readFrame(bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, length), Version)))
		require.ErrorIs(t, err, ErrProtocol)
		require.ErrorContains(t, err, says)
		require.Equal(t, says == "cut off: ", strings.HasSuffix(err.Error(), io.ErrUnexpectedEOF.Error()))
	}
	_, err := readFrame(bytes.NewReader(make([]byte, 3)))
	require.Equal(t, io.ErrUnexpectedEOF, err)

	f := frame{kind: rankPuts, key: "key", value: make([]byte, 1000)}
	b := f.encode()
	require.Equal(t, len(b), cap(b), "one allocation of the right size")

	for n, want := range map[int]string{0: "", 4095: strings.Repeat("x", 4095), 4096: strings.Repeat("x", 4096), 4097: strings.Repeat("x", 4093) + "...", 9000: strings.Repeat("x", 4093) + "..."} {
		require.Equal(t, want, string(cut(strings.Repeat("x", n))), n)
	}
}

// A card is legal up to each of its bounds, and a cut-off card is refused wherever it ends.
func TestBoundsOfCards(t *testing.T) {
	name := func(n int) string { return strings.Repeat("n", n) }
	fill := map[string][]byte{} // with another address of n bytes, the card has MaxValue bytes
	for i := range 15 {
		fill[fmt.Sprintf("%02d", i)] = make([]byte, MaxAddr)
	}
	n := MaxValue - 4 - 2 - 15*(2+2+2+MaxAddr) - 2 - 1 - 2
	for _, row := range []struct {
		name  string
		addr  int
		fill  bool
		wrong string
	}{
		{"", 1, false, "an address of 1 bytes under a name of 0; at most 4096 and 255 are legal"}, {name(1), 0, false, ""}, {name(MaxKey), 0, false, ""},
		{name(MaxKey + 1), 0, false, "under a name of 256"}, {"x", MaxAddr, false, ""}, {"x", MaxAddr + 1, false, "an address of 4097 bytes"},
		{"x", n, true, ""}, {"x", n + 1, true, fmt.Sprintf("%d bytes of addresses; at most %d are legal", MaxValue+1, MaxValue)},
	} {
		addrs := map[string][]byte{row.name: make([]byte, row.addr)}
		if row.fill {
			for k, v := range fill {
				addrs[k] = v
			}
		}
		card, err := MakeCard("", addrs)
		if row.wrong != "" {
			require.ErrorIs(t, err, ErrLimit)
			require.ErrorContains(t, err, row.wrong)
			require.Nil(t, card)
			continue
		}
		require.NoError(t, err, row.wrong)
		card, err = MakeCard("n", addrs)
		if row.fill { // one byte too many
			require.ErrorIs(t, err, ErrLimit)
			continue
		}
		require.NoError(t, err)
		p, err := readCard(card)
		require.NoError(t, err)
		require.Equal(t, addrs, p.Addrs)
	}

	card := func(pid int32, strs ...string) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(pid))
		for _, s := range strs {
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
		}
		return b
	}
	for _, row := range []struct {
		card []byte
		good bool
	}{
		{card(1, "n"), true}, {card(1<<31-1, "n"), true}, {card(0, "n"), false}, {card(-1, "n"), false}, {card(1, ""), false}, {card(1), false},
		{card(1, name(MaxKey)), true}, {card(1, name(MaxKey+1)), false},
		{card(1, "n", name(MaxKey), "a"), true}, {card(1, "n", name(MaxKey+1), "a"), false}, {card(1, "n", "a", name(MaxAddr)), true}, {card(1, "n", "a", name(MaxAddr+1)), false},
		{card(1, "n", "a", "x", "b", ""), true}, {card(1, "n", "b", "", "a", "x"), false}, {card(1, "n", "a", "", "a", ""), false}, {card(1, "n", "", "x"), false}, {card(1, "n", "a"), false},
	} {
		_, err := readCard(row.card)
		require.Equal(t, row.good, err == nil, "%q", row.card)
		if err != nil {
			require.EqualError(t, err, fmt.Sprintf("%v: a card of %d bytes", ErrProtocol, len(row.card)))
		}
	}
	whole, ends := card(7, "node", "a", "x", "bc", "yz"), map[int]bool{4 + 6: true, 4 + 6 + 6: true, 4 + 6 + 6 + 8: true}
	for i := range len(whole) + 1 {
		_, err := readCard(whole[:i:i])
		require.Equal(t, ends[i], err == nil, "%d of %d bytes", i, len(whole))
	}
	peers, err := ReadCards([][]byte{card(1, "m"), card(2, "n"), card(3, "m"), card(4, "m")})
	require.NoError(t, err)
	for r, want := range [][2]int{{0, 3}, {0, 1}, {1, 3}, {2, 3}} {
		require.Equal(t, [4]int{r, r + 1, want[0], want[1]}, [4]int{peers[r].Rank, peers[r].PID, peers[r].LocalRank, peers[r].LocalSize})
	}
	peers, err = ReadCards([][]byte{card(1, "m"), nil})
	require.Nil(t, peers)
	require.EqualError(t, err, fmt.Sprintf("card of rank 1: %v: a card of 0 bytes", ErrProtocol))
}

// stepwise is an end of a connection that returns the bytes of reads, counts the calls of Read and
// Write, and fails with err after step calls.
type stepwise struct {
	reads io.Reader
	sent  bytes.Buffer
	step  int
	err   error
	calls int
}

func (s *stepwise) failed() bool { s.calls++; return s.calls > s.step }

func (s *stepwise) Read(b []byte) (int, error) {
	if s.failed() {
		return 0, s.err
	}
	return s.reads.Read(b)
}

func (s *stepwise) Write(b []byte) (int, error) {
	if s.failed() {
		return 0, s.err
	}
	return s.sent.Write(b)
}

// A handshake ends at the first call that fails, with that call's error, and sends nothing more.
func TestHandshakeFailsAtEachStep(t *testing.T) {
	s := newSecret()
	broken := fmt.Errorf("broken")
	for side, steps := range map[Side]int{Initiator: 5, Acceptor: 5} {
		for step := range steps {
			w := &stepwise{reads: bytes.NewReader(append(makeHello(side.other(), []byte("x")), make([]byte, sha256.Size)...)), step: step, err: broken}
			theirs, err := Handshake(w, &s, "label", side, []byte("mine"))
			require.Nil(t, theirs)
			if step == 4 && side == Acceptor || step > 4 {
				require.ErrorIs(t, err, ErrSecret, "side %d, step %d", side, step)
				require.Equal(t, 4, w.calls)
				continue
			}
			require.Equal(t, broken, err, "side %d, step %d", side, step)
			require.Equal(t, step+1, w.calls, "side %d, step %d", side, step)
		}
	}
	// A peer without the secret fails even with the initiator's own proof.
	hello := makeHello(Acceptor, nil)
	for name, reflected := range map[string]bool{"zeros": false, "its own proof": true} {
		answer := &bytes.Buffer{}
		answer.Write(hello)
		w := &stepwise{reads: answer, step: 100}
		rw := struct {
			io.Reader
			io.Writer
		}{w, writerFunc(func(b []byte) (int, error) {
			if len(b) == sha256.Size && reflected {
				answer.Write(b)
			} else if len(b) == sha256.Size {
				answer.Write(make([]byte, sha256.Size))
			}
			return len(b), nil
		})}
		_, err := Handshake(rw, &s, "label", Initiator, nil)
		require.Equal(t, ErrSecret, err, name)
	}
	for side, legal := range map[Side]bool{0: false, Initiator: true, Acceptor: true, 3: false} {
		begin := func() { _, _ = Handshake(&stepwise{err: broken}, &s, "label", side, make([]byte, maxGreeting)) }
		if legal {
			require.NotPanics(t, begin)
		} else {
			require.PanicsWithValue(t, fmt.Sprintf("launch: side %d", side), begin)
		}
	}
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// A hello is read to its end and no further. If its version differs, its greeting is read too if
// that has a legal length.
func TestBoundsOfHellos(t *testing.T) {
	for _, row := range []struct {
		change      func(b []byte)
		greeting    int
		have        int // of the greeting
		wrong       string
		left, heard int
	}{
		{func([]byte) {}, 0, 0, "", 5, helloSize},
		{func([]byte) {}, maxGreeting, maxGreeting, "", 5, helloSize + maxGreeting},
		{func([]byte) {}, maxGreeting + 1, maxGreeting + 1, fmt.Sprintf("a greeting of %d bytes", maxGreeting+1), 5 + maxGreeting + 1, 0},
		{func(b []byte) { b[4]++ }, maxGreeting, maxGreeting, "build launcher and program from the same weft", 5, 0},
		{func(b []byte) { b[4]++ }, maxGreeting + 1, maxGreeting + 1, "version 3 on the other side, 2 here", 5 + maxGreeting + 1, 0},
		{func(b []byte) { b[0]++ }, 0, 0, "does not begin as one of weft's", 5, 0},
		{func(b []byte) { b[3]++ }, 0, 0, "does not begin", 5, 0},
		{func(b []byte) { b[5]++ }, 0, 0, "does not begin", 5, 0},
		{func(b []byte) { b[5]--; b[4]++ }, 0, 0, "does not begin", 5, 0},
		{func([]byte) {}, 9, 3, io.ErrUnexpectedEOF.Error(), 0, 0},
	} {
		b := makeHello(Initiator, make([]byte, row.greeting))
		row.change(b)
		b = b[:helloSize+row.have]
		if row.have == row.greeting {
			b = append(b, "after"...)
		}
		r := bytes.NewReader(b)
		got, err := readHello(r, Initiator)
		require.Equal(t, row.left, r.Len(), row.wrong)
		if row.wrong == "" {
			require.NoError(t, err)
			require.Equal(t, b[:row.heard], got)
			continue
		}
		require.ErrorContains(t, err, row.wrong)
		if row.have == row.greeting {
			require.ErrorIs(t, err, ErrProtocol)
		}
	}
	_, err := readHello(bytes.NewReader(make([]byte, helloSize-1)), Initiator)
	require.Equal(t, io.ErrUnexpectedEOF, err)
}
