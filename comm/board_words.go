//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

const (
	// boardPast is how many collectives by messages a rank remembers.
	boardPast = 64
	// stageWindow is how many bytes of all ranks are combined at a time: of 64 to 512 KiB the fastest for 1 MiB, by little. stageElem is the size of the largest
	// elements.
	stageWindow = 256 << 10
	stageElem   = 4 << 10
)

// token is there or not; one caller sleeps until it is.
type token chan struct{}

func newToken() token { return make(token, 1) }

func (t token) put() {
	select {
	case t <- struct{}{}:
	default:
	}
}

func (t token) take() { <-t }
