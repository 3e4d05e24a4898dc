// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"unsafe"

	"weft/comm/internal/coll"
	"weft/internal/shmem"
	"weft/internal/xatomic"
)

const (
	boardData = 224 // bytes of a part that a place has room for
	maxBoards = 64  // communicators that can have a board; the others have messages

	stageResult = stageWindow/2 + stageElem // the largest block of a window that one rank combines
)

// boardPart is what one rank shows of one board, in memory that all ranks of the board have mapped. Its rank writes it, the others read.
type boardPart struct {
	sleeps xatomic.Uint32 // its caller is to be told of news
	_      [60]byte
	floor  xatomic.Uint64 // it needs no place any more up to this number; written by who makes a collective of messages
	_      [56]byte
	step   xatomic.Uint64 // of a large collective: its number, and what this rank has done of it
	_      [56]byte
	past   [boardPast]xatomic.Uint64 // by number: the last collective there that it makes of messages
	places [2]boardPlace             // its last two here
}

// boardPlace is its part of one collective.
type boardPlace struct {
	state xatomic.Uint64 // the number, written last
	what  coll.Collective
	elem  uint64 // what the elements are
	unit  uint64 // how many bytes
	data  [boardData]byte
}

// boardPartAt returns a part of the memory that a rank shares; nil if there is no such part.
func boardPartAt(mem []byte, index int) *boardPart {
	size := shmem.SizeOf[boardPart]()
	if index < 0 || (index+1)*size > len(mem) {
		return nil
	}
	return shmem.View[boardPart](mem, index*size)
}

// stage is memory of a rank through which the ranks of a board make large collectives.
type stage struct {
	in     []byte // what others combine
	result []byte // what this rank has combined
}

// stageAt returns the stage in the memory that a rank shares; an empty one if there is none.
func stageAt(mem []byte) stage {
	const page = 4 << 10
	at := (maxBoards*int(unsafe.Sizeof(boardPart{})) + page - 1) &^ (page - 1)
	if at+stageWindow+stageResult > len(mem) {
		return stage{}
	}
	mem = mem[at:]
	return stage{mem[:stageWindow:stageWindow], mem[stageWindow : stageWindow+stageResult]}
}

// soon says that its rank will write the place next: to have the line then saves one way between processors.
func (p *boardPlace) soon() { xatomic.PrefetchW(unsafe.Pointer(p)) }
