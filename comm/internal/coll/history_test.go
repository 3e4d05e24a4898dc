// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Questions about collectives that this rank has not begun are kept until Take; of each rank the
// last one.
func TestQuestionsAreKept(t *testing.T) {
	var h History
	s := Signature{What: NewCollective(Barrier, nil, -1)}
	for count := range uint64(3) {
		for from := range 2 {
			q := Question{From: from, Count: count + 1}
			for range count + 1 {
				q.Last = append(q.Last, s)
			}
			n, _ := h.Compare(&q)
			require.Zero(t, n)
		}
	}
	require.True(t, h.Behind())
	kept := h.Take()
	require.Len(t, kept, 2)
	for from, q := range kept {
		require.Equal(t, from, q.From)
		require.EqualValues(t, 3, q.Count)
	}
	require.False(t, h.Behind())
	require.Empty(t, h.Take())
	n, _ := h.Compare(&Question{From: 1, Count: 1, Last: []Signature{s}, Certain: true})
	require.Zero(t, n)
	require.False(t, h.Behind(), "a certain question is not kept")
}

// A question is read from a frame as it was written. Data that cannot be a question is refused.
func TestQuestionFrames(t *testing.T) {
	var h History
	for i := range HistoryLen + 3 {
		q := h.NewQuestion(7)
		got, err := QuestionOf(7, q.Count, true, q.Append(nil))
		require.NoError(t, err)
		q.Certain = true
		require.Equal(t, q, got)
		require.EqualValues(t, i, q.Count)
		require.Len(t, q.Last, min(i, HistoryLen))
		for n := q.First(); n <= q.Count; n++ {
			require.EqualValues(t, 8*n, q.At(n).Unit)
		}
		h.Record(&Call{What: NewCollective(Bcast, nil, 0), Unit: 8 * (i + 1)}, 0)
	}
	for n := range SignatureBytes * 3 {
		_, err := QuestionOf(0, 2, false, make([]byte, n))
		require.Equal(t, n == 2*SignatureBytes, err == nil, n)
	}
}
