// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestExpected(t *testing.T) {
	var x Expected
	var ends []error
	end := func(err error) { ends = append(ends, err) }
	x.Add(1, 7, make([]byte, 10), end)

	p, err := x.Begin(0, 7, 0, 10)
	require.NoError(t, err)
	require.Nil(t, p, "nobody expects that from rank 0")
	for _, bad := range []struct{ off, n int }{{1, 1}, {0, 0}, {0, 11}, {0, -1}} {
		_, err = x.Begin(1, 7, uint64(bad.off), bad.n)
		require.ErrorContains(t, err, "of which 0 of 10 are here")
	}
	p, err = x.Begin(1, 7, 0, 4)
	require.NoError(t, err)
	require.Len(t, p, 4)
	require.Equal(t, 4, cap(p))
	_, err = x.Begin(1, 7, 0, 4)
	require.Error(t, err, "a piece that comes twice")
	require.False(t, x.Forget(1, 7), "a piece is being written")
	require.Empty(t, ends)
	x.End(1, 7, 4, nil)
	require.Equal(t, []error{ErrClosed}, ends)
	p, err = x.Begin(1, 7, 4, 6)
	require.NoError(t, err)
	require.Nil(t, p, "it was taken back")

	x.Add(1, 8, make([]byte, 4), end)
	_, _ = x.Begin(1, 8, 0, 4)
	x.Lose(1, errors.New("gone"))
	x.End(1, 8, 4, nil)
	require.NoError(t, ends[1], "all of it was there")
	x.Add(1, 9, make([]byte, 4), end)
	require.EqualError(t, ends[2], "gone")
	x.Add(2, 9, make([]byte, 4), end)
	_, _ = x.Begin(2, 9, 0, 2)
	x.Close()
	require.Len(t, ends, 3)
	cut := errors.New("cut")
	x.End(2, 9, 2, cut)
	require.Equal(t, cut, ends[3])
	x.Add(3, 1, make([]byte, 1), end)
	require.Equal(t, ErrClosed, ends[4])
	require.Len(t, ends, 5)
}

// Whoever is told of an end may call the table again, whatever has ended it.
func TestExpectedFromDone(t *testing.T) {
	gone := errors.New("gone")
	for name, end := range map[string]func(x *Expected, done func(error)){
		"all is here": func(x *Expected, done func(error)) {
			x.Add(1, 7, make([]byte, 1), done)
			_, _ = x.Begin(1, 7, 0, 1)
			x.End(1, 7, 1, nil)
		},
		"broken": func(x *Expected, done func(error)) {
			x.Add(1, 7, make([]byte, 2), done)
			_, _ = x.Begin(1, 7, 0, 1)
			x.End(1, 7, 1, gone)
		},
		"lost":             func(x *Expected, done func(error)) { x.Add(1, 7, make([]byte, 1), done); x.Lose(1, gone) },
		"of one lost":      func(x *Expected, done func(error)) { x.Lose(1, gone); x.Add(1, 7, make([]byte, 1), done) },
		"closed":           func(x *Expected, done func(error)) { x.Add(1, 7, make([]byte, 1), done); x.Close() },
		"behind the close": func(x *Expected, done func(error)) { x.Close(); x.Add(1, 7, make([]byte, 1), done) },
	} {
		t.Run(name, func(t *testing.T) {
			var x Expected
			ended := make(chan bool, 2)
			go end(&x, func(error) {
				x.Add(2, 1, make([]byte, 1), func(error) {})
				ended <- x.Forget(1, 7) || x.Waiting() != x.Forget(2, 1) || x.Waiting()
			})
			select {
			case wrong := <-ended:
				require.False(t, wrong)
			case <-time.After(20 * time.Second):
				t.Fatal("the table is locked while done runs")
			}
			require.Empty(t, ended)
		})
	}
}

// Ranks whose pieces come, whose transfers are taken back and who are lost, all at once: each transfer ends once or is taken back, and its bytes are in place.
func TestExpectedHammer(t *testing.T) {
	var x Expected
	var wg sync.WaitGroup
	const ranks, each = 8, 500
	for src := range ranks {
		wg.Go(func() {
			for k := range uint64(each) {
				dst, ends := make([]byte, 4), 0
				x.Add(src, k, dst, func(error) { ends++ })
				if k%5 == 4 {
					if !x.Forget(src, k) || x.Forget(src, k) {
						t.Error("it is waited for, once")
					}
					ends++
				}
				for off := range uint64(4) {
					p, err := x.Begin(src, k, off, 1)
					if (p != nil) != (k%5 != 4) || err != nil {
						t.Errorf("piece %d of transfer %d: %v, %v", off, k, p, err)
					}
					if p != nil {
						p[0] = byte(off + 1)
						x.End(src, k, 1, nil)
					}
				}
				if ends != 1 || k%5 != 4 && string(dst) != "\x01\x02\x03\x04" {
					t.Errorf("transfer %d of rank %d: %d ends, %v", k, src, ends, dst)
				}
			}
			lost := 0
			for k := range uint64(3) {
				x.Add(src, k, make([]byte, 1), func(error) { lost++ })
			}
			x.Lose(src, ErrClosed)
			if lost != 3 {
				t.Errorf("%d of 3 transfers of a lost rank end", lost)
			}
		})
	}
	wg.Wait()
	require.False(t, x.Waiting())
}

// The end of several parts is one end, behind the last of them, with the error of the first that has failed.
func TestLast(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	for _, parts := range [][]error{{nil}, {first}, {nil, nil}, {first, nil}, {nil, first}, {first, second}, {nil, first, nil, second}} {
		var want error
		var ends []error
		end := Last(len(parts), func(err error) { ends = append(ends, err) })
		for _, err := range parts {
			require.Empty(t, ends)
			if end(err); want == nil {
				want = err
			}
		}
		require.Equal(t, []error{want}, ends, "%v", parts)
	}
}
