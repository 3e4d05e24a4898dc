// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// words encodes numbers as the handshake does.
func words(ns ...uint32) (b []byte) {
	for _, n := range ns {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return b
}

// mac is the proof as handshake.go describes it: the role, both ranks, the dialler's nonce, the
// acceptor's.
func mac(secret []byte, role byte, dialler, acceptor uint32, a, b []byte) []byte {
	m := hmac.New(sha256.New, secret)
	_, _ = m.Write(bytes.Join([][]byte{{role}, words(dialler, acceptor), a, b}, nil))
	return m.Sum(nil)
}

// take reads n bytes.
func take(t *testing.T, c io.Reader, n int) []byte {
	b := make([]byte, n)
	_, err := io.ReadFull(c, b)
	require.NoError(t, err)
	return b
}

var aNonce = bytes.Repeat([]byte("n"), nonceSize)

// The dialler's part, step by step, with an acceptor that was written from the description only.
// Each field of the acceptor's answer is wrong in turn.
func TestGreet(t *testing.T) {
	const self, peer = 3, 0x0102
	honest := func(theirs []byte) []byte { return mac(testSecret, 'a', self, peer, theirs, aNonce) }
	var nonces [][]byte
	for name, row := range map[string]struct {
		proof   func(theirs []byte) []byte
		verdict byte
		err     string
	}{
		"accepted":        {honest, 1, ""},
		"duplicate":       {honest, 2, "the other side's connection is used"},
		"no verdict":      {honest, 0, "it answers 0 to the handshake"},
		"another verdict": {honest, 3, "it answers 3 to the handshake"},
		"another secret":  {func(n []byte) []byte { return mac(testSecret[1:], 'a', self, peer, n, aNonce) }, 0, errProof.Error()},
		"its own role":    {func(n []byte) []byte { return mac(testSecret, 'd', self, peer, n, aNonce) }, 0, errProof.Error()},
		"another dialler": {func(n []byte) []byte { return mac(testSecret, 'a', self+1, peer, n, aNonce) }, 0, errProof.Error()},
		"another rank":    {func(n []byte) []byte { return mac(testSecret, 'a', self, peer-1, n, aNonce) }, 0, errProof.Error()},
		"ranks exchanged": {func(n []byte) []byte { return mac(testSecret, 'a', peer, self, n, aNonce) }, 0, errProof.Error()},
		"nonces likewise": {func(n []byte) []byte { return mac(testSecret, 'a', self, peer, aNonce, n) }, 0, errProof.Error()},
		"an old nonce":    {func([]byte) []byte { return mac(testSecret, 'a', self, peer, aNonce, aNonce) }, 0, errProof.Error()},
		"the last bit":    {func(n []byte) []byte { p := honest(n); p[31] ^= 1; return p }, 0, errProof.Error()},
		"the first bit":   {func(n []byte) []byte { p := honest(n); p[0] ^= 128; return p }, 0, errProof.Error()},
	} {
		here, there := net.Pipe()
		result := make(chan error, 1)
		go func() { result <- greet(here, testSecret, self, peer); _ = here.Close() }()
		hello := take(t, there, helloSize)
		require.Equal(t, append([]byte("weft"), words(3, self)...), hello[:12], name)
		nonces = append(nonces, hello[12:])
		_, _ = there.Write(append(bytes.Clone(aNonce), row.proof(hello[12:])...))
		if row.err != errProof.Error() {
			require.Equal(t, mac(testSecret, 'd', self, peer, hello[12:], aNonce), take(t, there, 32), name)
			_, _ = there.Write([]byte{row.verdict})
		}
		if err := <-result; row.err == "" {
			require.NoError(t, err, name)
		} else {
			require.EqualError(t, err, row.err, name)
		}
		_, err := there.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, "%s: nothing more is sent", name)
		_ = there.Close()
	}
	for i := range nonces {
		for _, other := range nonces[:i] {
			require.NotEqual(t, other, nonces[i], "a nonce is used once")
		}
	}
}

// The acceptor's part, likewise.
func TestReceive(t *testing.T) {
	const self, peer, size = 0x0102, 3, 0x0304
	honest := func(theirs []byte) []byte { return mac(testSecret, 'd', peer, self, aNonce, theirs) }
	hello := func(name string, ns ...uint32) []byte { return append([]byte(name), words(ns...)...) }
	for name, row := range map[string]struct {
		hello []byte
		rank  int
		proof func(theirs []byte) []byte
		err   string
	}{
		"honest":           {hello("weft", 3, peer), peer, honest, ""},
		"the first rank":   {hello("weft", 3, 0), 0, func(n []byte) []byte { return mac(testSecret, 'd', 0, self, aNonce, n) }, ""},
		"the last rank":    {hello("weft", 3, size-1), size - 1, func(n []byte) []byte { return mac(testSecret, 'd', size-1, self, aNonce, n) }, ""},
		"no such rank":     {hello("weft", 3, size), 0, nil, "it says that it is rank 772, to rank 258 of 772"},
		"itself":           {hello("weft", 3, self), 0, nil, "it says that it is rank 258, to rank 258 of 772"},
		"version 2":        {hello("weft", 2, peer), 0, nil, "it speaks version 2, this process version 3"},
		"version 4":        {hello("weft", 4, peer), 0, nil, "it speaks version 4, this process version 3"},
		"another protocol": {hello("wefu", 3, peer), 0, nil, "it is no weft process"},
		"another secret":   {hello("weft", 3, peer), peer, func(n []byte) []byte { return mac(testSecret[1:], 'd', peer, self, aNonce, n) }, errProof.Error()},
		"the other role":   {hello("weft", 3, peer), peer, func(n []byte) []byte { return mac(testSecret, 'a', peer, self, aNonce, n) }, errProof.Error()},
		"another dialler":  {hello("weft", 3, peer), peer, func(n []byte) []byte { return mac(testSecret, 'd', peer+1, self, aNonce, n) }, errProof.Error()},
		"another rank":     {hello("weft", 3, peer), peer, func(n []byte) []byte { return mac(testSecret, 'd', peer, self+1, aNonce, n) }, errProof.Error()},
		"nonces exchanged": {hello("weft", 3, peer), peer, func(n []byte) []byte { return mac(testSecret, 'd', peer, self, n, aNonce) }, errProof.Error()},
		"the last bit":     {hello("weft", 3, peer), peer, func(n []byte) []byte { p := honest(n); p[31] ^= 1; return p }, errProof.Error()},
	} {
		here, there := net.Pipe()
		type outcome struct {
			rank int
			err  error
		}
		result := make(chan outcome, 1)
		go func() {
			rank, err := receive(here, testSecret, self, size)
			_ = here.Close()
			result <- outcome{rank, err}
		}()
		_, err := there.Write(append(row.hello, aNonce...))
		require.NoError(t, err, name)
		if row.proof != nil {
			answer := take(t, there, nonceSize+32)
			require.Equal(t, mac(testSecret, 'a', uint32(row.rank), self, aNonce, answer[:nonceSize]), answer[nonceSize:], name)
			_, _ = there.Write(row.proof(answer[:nonceSize]))
		}
		_, err = there.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, "%s: nothing more is sent", name)
		if got := <-result; row.err == "" {
			require.NoError(t, got.err, name)
			require.Equal(t, row.rank, got.rank, name)
		} else {
			require.EqualError(t, got.err, row.err, name)
		}
		_ = there.Close()
	}
}

// failing is a connection whose call number fails, counted from 0, fails. Earlier reads have
// answers.
type failing struct {
	answers [][]byte
	calls   int
	fails   int
}

var errFails = errors.New("it fails")

func (f *failing) call() error {
	if f.calls++; f.calls > f.fails {
		return errFails
	}
	return nil
}

func (f *failing) Write(b []byte) (int, error) { return len(b), f.call() }

func (f *failing) Read(b []byte) (int, error) {
	if err := f.call(); err != nil {
		return 0, err
	}
	return copy(b, f.answers[f.calls-1]), nil
}

// Each call that a handshake makes fails in turn: the handshake ends there, with the error.
func TestHandshakeFails(t *testing.T) {
	for k := range 2 { // the calls before which no answer depends on a nonce
		f := &failing{fails: k}
		require.ErrorIs(t, greet(f, testSecret, 0, 1), errFails, k)
		require.Equal(t, k+1, f.calls)
		f = &failing{fails: k, answers: [][]byte{append([]byte("weft"), append(words(3, 1), aNonce...)...)}}
		rank, err := receive(f, testSecret, 0, 2)
		require.ErrorIs(t, err, errFails, k)
		require.Zero(t, rank)
		require.Equal(t, k+1, f.calls)
	}
	for _, say := range []int{0, 1, 2} { // how many parts of its answer the other side sends
		here, there := net.Pipe()
		result := make(chan error, 2)
		go func() { result <- greet(here, testSecret, 0, 1); _ = here.Close() }()
		hello := take(t, there, helloSize)
		if say > 0 {
			_, _ = there.Write(append(bytes.Clone(aNonce), mac(testSecret, 'a', 0, 1, hello[12:], aNonce)...))
		}
		if say > 1 {
			take(t, there, 32)
		}
		_ = there.Close()
		require.ErrorIs(t, <-result, []error{io.EOF, io.ErrClosedPipe, io.EOF}[say], say)
	}
	here, there := net.Pipe()
	result := make(chan error, 1)
	go func() { _, err := receive(here, testSecret, 0, 2); result <- err }()
	_, err := there.Write(append([]byte("weft"), append(words(3, 1), aNonce...)...))
	require.NoError(t, err)
	take(t, there, nonceSize+32)
	_ = there.Close()
	require.ErrorIs(t, <-result, io.EOF)
}

// A head, and each of its fields at its limits.
func TestHeads(t *testing.T) {
	f := frameOf(7, 11)
	f.Origin = 1
	head := appendHead([]byte("x"), kindPiece, &f)
	want := append([]byte("x"), words(11, 3, 1, 0)...)
	for i := range f.Head {
		want = binary.LittleEndian.AppendUint64(want, f.Head[i])
	}
	require.Equal(t, want, head)
	require.Len(t, head, 1+headSize)
	got := frameOf(0, 0)
	kind, n, err := parseHead(head[1:], 2, &got)
	require.NoError(t, err)
	require.EqualValues(t, kindPiece, kind)
	require.Equal(t, 11, n)
	require.Equal(t, f.Head, got.Head)
	require.Equal(t, []int32{1, 0}, []int32{got.Origin, got.Target})
	_, _, err = parseHead(head[1:], 1, &got)
	require.EqualError(t, err, "fabric: no such rank: a frame from rank 1 to rank 0 of 1")
	copy(head[13:], words(2))
	_, _, err = parseHead(head[1:], 2, &got)
	require.EqualError(t, err, "fabric: no such rank: a frame from rank 1 to rank 2 of 2")
	copy(head[13:], words(0))
	for _, row := range []struct {
		kind, size uint32
		ok         bool
	}{
		{0, 0, false},
		{1, 0, true}, {1, MaxFrame - 1, true}, {1, MaxFrame, true}, {1, MaxFrame + 1, false}, {1, maxPiece, false}, {1, 1<<32 - 1, false},
		{2, 0, true}, {2, 1, false}, {2, 1<<32 - 1, false},
		{3, 0, true}, {3, MaxFrame + 1, true}, {3, maxPiece, true}, {3, maxPiece + 1, false},
		{4, 0, false}, {1 << 8, 0, false}, {1<<32 - 1, 0, false},
	} {
		copy(head[1:], words(row.size, row.kind))
		kind, n, err := parseHead(head[1:], 2, &got)
		if !row.ok {
			require.EqualError(t, err, fmt.Sprintf("a frame of kind %d with %d bytes", row.kind, row.size))
			continue
		}
		require.NoError(t, err)
		require.Equal(t, row.kind, kind)
		require.EqualValues(t, row.size, n)
	}
}
