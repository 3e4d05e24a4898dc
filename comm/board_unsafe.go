// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"sync/atomic"
	"unsafe"
)

const (
	boardData = 224 // bytes of a part that a place has room for
	boardPast = 64  // collectives by messages that a rank remembers
	maxBoards = 64  // communicators that can have a board; the others have messages
)

// boardPart is what one rank shows of one board, in memory that all ranks of the board have mapped. Its rank writes it, the others read.
type boardPart struct {
	sleeps atomic.Uint32 // its caller is to be told of news
	_      [60]byte
	floor  atomic.Uint64 // it needs no place any more up to this number; written by who makes a collective of messages
	_      [56]byte
	past   [boardPast]atomic.Uint64 // by number: the last collective there that it makes of messages
	places [2]boardPlace            // its last two here
}

// boardPlace is its part of one collective.
type boardPlace struct {
	state atomic.Uint64 // the number, written last
	what  collective
	shape uint64 // bytes, and what the elements are
	_     [8]byte
	data  [boardData]byte
}

// boardPartAt returns a part of the memory that a rank shares; nil if there is no such part.
func boardPartAt(mem []byte, index int) *boardPart {
	const size = int(unsafe.Sizeof(boardPart{}))
	if index < 0 || (index+1)*size > len(mem) {
		return nil
	}
	return (*boardPart)(unsafe.Pointer(&mem[index*size]))
}
