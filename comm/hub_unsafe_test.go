// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Places do not share cache lines, and what others wait for is in a line of its own or with what is read together.
func TestHubLayout(t *testing.T) {
	require.Zero(t, unsafe.Sizeof(place{})%64, "%d", unsafe.Sizeof(place{}))
	require.EqualValues(t, 40, unsafe.Offsetof(place{}.inline), "8 bytes are in the first line, and aligned")
	require.Zero(t, unsafe.Sizeof(hubSlot{})%64)
	require.Zero(t, unsafe.Sizeof(boardPart{})%64, "%d", unsafe.Sizeof(boardPart{}))
	require.Zero(t, unsafe.Sizeof(boardPlace{})%64, "%d", unsafe.Sizeof(boardPlace{}))
	require.Zero(t, unsafe.Offsetof(boardPart{}.places)%64)
	require.Zero(t, unsafe.Sizeof(hubRank{})%64, "%d", unsafe.Sizeof(hubRank{}))
}
