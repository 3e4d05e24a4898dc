// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"weft/internal/fabric"
)

// The handshake. All numbers are little-endian. Each side proves that it knows the secret, by a MAC
// over both nonces, both ranks and its own role. So neither the other side's MAC nor one from
// another connection is accepted.
//
//	dialler → acceptor   "weft" version rank nonce         (4+4+4+32 bytes)
//	acceptor → dialler   nonce mac                         (32+32)
//	dialler → acceptor   mac                               (32)
//	acceptor → dialler   verdict                           (1)
const (
	magic     = "weft"
	version   = 3 // 2: frames had no origin; 1: pieces were smaller
	nonceSize = 32
	helloSize = 4 + 4 + 4 + nonceSize
)

// Verdicts.
const (
	accepted  = 1 // frames may flow
	duplicate = 2 // another connection between the two ranks is used, or will be
)

var (
	errProof     = errors.New("it does not know the secret of the job")
	errDuplicate = errors.New("the other side's connection is used")
)

type nonce [nonceSize]byte

// proof is the MAC of one side.
func proof(secret []byte, role byte, dialler, acceptor uint32, a, b *nonce) []byte {
	m := hmac.New(sha256.New, secret)
	var w [9]byte
	w[0] = role
	binary.LittleEndian.PutUint32(w[1:], dialler)
	binary.LittleEndian.PutUint32(w[5:], acceptor)
	m.Write(w[:])
	m.Write(a[:])
	m.Write(b[:])
	return m.Sum(nil)
}

// greet is the dialler's part. It returns nil if the acceptor takes the connection, and
// errDuplicate if another connection is used.
func greet(c io.ReadWriter, secret []byte, self, peer int) error {
	var mine, theirs nonce
	_, _ = rand.Read(mine[:]) // never fails
	hello := make([]byte, 0, helloSize)
	hello = append(hello, magic...)
	hello = binary.LittleEndian.AppendUint32(hello, version)
	hello = binary.LittleEndian.AppendUint32(hello, uint32(self))
	hello = append(hello, mine[:]...)
	if _, err := c.Write(hello); err != nil {
		return err
	}
	var answer [nonceSize + sha256.Size]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return err
	}
	copy(theirs[:], answer[:nonceSize])
	if !hmac.Equal(answer[nonceSize:], proof(secret, 'a', uint32(self), uint32(peer), &mine, &theirs)) {
		return errProof
	}
	if _, err := c.Write(proof(secret, 'd', uint32(self), uint32(peer), &mine, &theirs)); err != nil {
		return err
	}
	var verdict [1]byte
	if _, err := io.ReadFull(c, verdict[:]); err != nil {
		return err
	}
	switch verdict[0] {
	case accepted:
		return nil
	case duplicate:
		return errDuplicate
	}
	return fmt.Errorf("it answers %d to the handshake", verdict[0])
}

// receive is the acceptor's part, up to the verdict. It accepts ranks below size, and returns the
// dialler's rank.
func receive(c io.ReadWriter, secret []byte, self, size int) (int, error) {
	var hello [helloSize]byte
	if _, err := io.ReadFull(c, hello[:]); err != nil {
		return 0, err
	}
	if string(hello[:4]) != magic {
		return 0, errors.New("it is no weft process")
	}
	if v := binary.LittleEndian.Uint32(hello[4:]); v != version {
		return 0, fmt.Errorf("it speaks version %d, this process version %d", v, version)
	}
	peer := binary.LittleEndian.Uint32(hello[8:])
	if peer >= uint32(size) || peer == uint32(self) {
		return 0, fmt.Errorf("it says that it is rank %d, to rank %d of %d", peer, self, size)
	}
	var mine, theirs nonce
	copy(theirs[:], hello[12:])
	_, _ = rand.Read(mine[:]) // never fails
	answer := append(mine[:], proof(secret, 'a', peer, uint32(self), &theirs, &mine)...)
	if _, err := c.Write(answer); err != nil {
		return 0, err
	}
	var mac [sha256.Size]byte
	if _, err := io.ReadFull(c, mac[:]); err != nil {
		return 0, err
	}
	if !hmac.Equal(mac[:], proof(secret, 'd', peer, uint32(self), &theirs, &mine)) {
		return 0, errProof
	}
	return int(peer), nil
}

// A frame on the wire, all numbers little-endian: the length of the data (4 bytes), the kind (4),
// origin and target (4 each), the words of the head (8 each), the data.
const headSize = 16 + 8*fabric.HeadWords

const (
	kindFrame = 1
	kindClose = 2 // the last frame: this side will send no more
	kindPiece = 3 // of a transfer: the first two words of the head are its key and the offset
)

func appendHead(b []byte, kind uint32, f *fabric.Frame) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Data)))
	b = binary.LittleEndian.AppendUint32(b, kind)
	b = binary.LittleEndian.AppendUint32(b, uint32(f.Origin))
	b = binary.LittleEndian.AppendUint32(b, uint32(f.Target))
	for _, w := range f.Head {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// parseHead reads a head into f, and returns the kind of the frame and the length of its data.
// ranks is the number of ranks of the job.
func parseHead(b []byte, ranks int, f *fabric.Frame) (kind uint32, n int, err error) {
	size := binary.LittleEndian.Uint32(b)
	kind = binary.LittleEndian.Uint32(b[4:])
	switch {
	case kind == kindFrame && size <= MaxFrame, kind == kindPiece && size <= maxPiece:
	case kind == kindClose && size == 0:
	default:
		return 0, 0, fmt.Errorf("a frame of kind %d with %d bytes", kind, size)
	}
	f.Origin, f.Target = int32(binary.LittleEndian.Uint32(b[8:])), int32(binary.LittleEndian.Uint32(b[12:]))
	if err := f.Between(ranks); err != nil {
		return 0, 0, err
	}
	for i := range f.Head {
		f.Head[i] = binary.LittleEndian.Uint64(b[16+8*i:])
	}
	return kind, int(size), nil
}
