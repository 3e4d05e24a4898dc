//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import "weft/internal/fabric"

const (
	version   = 1
	headSize  = 8 * fabric.HeadWords
	frameSize = headSize + MaxFrame
	slots     = 64 // receives of frames that are posted

	maxShare, maxShares = 1 << 16, 1 << 30 // bytes of an exchange
)

// The tags of messages on the frames' communicator.
const (
	kindFrame = 1 + iota // a frame: head, data
	kindBye              // nothing comes behind this
	kindTag              // the transfer of a key has another tag: head with key and tag
)
