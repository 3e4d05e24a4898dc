// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"sync"
	"sync/atomic"
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
	require.Nil(t, p, "nothing is expected from rank 0")
	for _, bad := range []struct{ off, n int }{{1, 1}, {0, 0}, {0, 11}, {0, -1}} {
		_, err = x.Begin(1, 7, uint64(bad.off), bad.n)
		require.ErrorContains(t, err, "of which 0 of 10 bytes have arrived")
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
	require.NoError(t, ends[1], "all bytes had arrived")
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

// done may call the table again, whatever has ended the transfer.
func TestExpectedFromDone(t *testing.T) {
	gone := errors.New("gone")
	for name, end := range map[string]func(x *Expected, done func(error)){
		"complete": func(x *Expected, done func(error)) {
			x.Add(1, 7, make([]byte, 1), done)
			_, _ = x.Begin(1, 7, 0, 1)
			x.End(1, 7, 1, nil)
		},
		"broken": func(x *Expected, done func(error)) {
			x.Add(1, 7, make([]byte, 2), done)
			_, _ = x.Begin(1, 7, 0, 1)
			x.End(1, 7, 1, gone)
		},
		"lost":          func(x *Expected, done func(error)) { x.Add(1, 7, make([]byte, 1), done); x.Lose(1, gone) },
		"lost before":   func(x *Expected, done func(error)) { x.Lose(1, gone); x.Add(1, 7, make([]byte, 1), done) },
		"closed":        func(x *Expected, done func(error)) { x.Add(1, 7, make([]byte, 1), done); x.Close() },
		"closed before": func(x *Expected, done func(error)) { x.Close(); x.Add(1, 7, make([]byte, 1), done) },
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

// Pieces arrive, transfers are taken back and ranks are lost, all at once: each transfer ends once
// or is taken back, and its bytes are in dst.
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
						t.Error("the first Forget returns true, the second one false")
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

	// The table closes while transfers are added, from lost ranks and from others.
	var ended [ranks]atomic.Int32
	for src := range ranks {
		wg.Go(func() {
			for k := range uint64(each) {
				x.Add(src+ranks*int(k%2), k, make([]byte, 1), func(err error) {
					if err != nil {
						ended[src].Add(1)
					}
				})
			}
		})
	}
	closing := make(chan struct{})
	go func() { x.Close(); close(closing) }()
	wg.Wait()
	<-closing
	x.Close()
	for src := range ranks {
		require.EqualValues(t, each, ended[src].Load())
	}
	require.False(t, x.Waiting())
}

// Begin takes the next piece of a transfer and nothing else. A transfer ends with the first error
// that it was given, when no piece of it is being written any more.
func TestExpectedSteps(t *testing.T) {
	gone, later := errors.New("gone"), errors.New("later")
	begin := func(x *Expected, off uint64, n int) (int, error) {
		p, err := x.Begin(1, 7, off, n)
		return len(p), err
	}
	type ends []error
	of := func(size int) (*Expected, *ends) {
		x, e := new(Expected), new(ends)
		x.Add(1, 7, make([]byte, size), func(err error) { *e = append(*e, err) })
		return x, e
	}
	for off := range uint64(12) {
		for n := -1; n < 13; n++ {
			x, e := of(10)
			_, _ = begin(x, 0, 4)
			x.End(1, 7, 4, nil)
			require.Empty(t, *e)
			got, err := begin(x, off, n)
			if off == 4 && n > 0 && n <= 6 {
				require.NoError(t, err)
				require.Equal(t, n, got)
				require.True(t, x.Waiting())
				if x.End(1, 7, n, nil); n == 6 {
					require.Equal(t, ends{nil}, *e)
				} else {
					require.Empty(t, *e)
				}
				require.Equal(t, n != 6, x.Waiting())
				continue
			}
			require.ErrorContains(t, err, "of transfer 7, of which 4 of 10 bytes have arrived", "%d bytes at %d", n, off)
			require.Zero(t, got)
		}
	}
	for name, row := range map[string]struct {
		first, second func(x *Expected)
		want          error
	}{
		"taken back, then lost":   {func(x *Expected) { x.Forget(1, 7) }, func(x *Expected) { x.Lose(1, later) }, ErrClosed},
		"lost, then taken back":   {func(x *Expected) { x.Lose(1, gone) }, func(x *Expected) { x.Forget(1, 7) }, gone},
		"lost, then closed":       {func(x *Expected) { x.Lose(1, gone) }, (*Expected).Close, gone},
		"closed, then lost":       {(*Expected).Close, func(x *Expected) { x.Lose(1, gone) }, ErrClosed},
		"lost twice":              {func(x *Expected) { x.Lose(1, gone) }, func(x *Expected) { x.Lose(1, later) }, gone},
		"another lost, then this": {func(x *Expected) { x.Lose(2, later) }, func(x *Expected) { x.Lose(1, gone) }, gone},
	} {
		for _, all := range []bool{false, true} { // the piece that is being written is the last
			x, e := of(10)
			n := 4
			if all {
				n = 10
			}
			_, err := begin(x, 0, n)
			require.NoError(t, err)
			row.first(x)
			if row.second(x); name != "another lost, then this" {
				got, err := begin(x, uint64(n), 1)
				require.NoError(t, err, "later bytes are dropped")
				require.Zero(t, got)
			}
			require.Empty(t, *e, name)
			require.True(t, x.Waiting(), "a piece is being written")
			require.False(t, x.Forget(1, 7))
			if x.End(1, 7, n, nil); all {
				require.Equal(t, ends{nil}, *e, "%s: all bytes have arrived", name)
			} else {
				require.Equal(t, ends{row.want}, *e, name)
			}
			require.False(t, x.Waiting())
		}
	}
	x := new(Expected)
	x.Lose(1, gone)
	x.Lose(1, later)
	for _, src := range []int{1, 2} {
		var e ends
		x.Add(src, 9, make([]byte, 1), func(err error) { e = append(e, err) })
		if src == 1 {
			require.Equal(t, ends{gone}, e)
		} else {
			require.Empty(t, e, "another rank is lost")
			require.True(t, x.Forget(2, 9))
		}
	}
	require.False(t, x.Waiting())
}

// Parts that end at once, in several goroutines, have one end; if a part has failed, the end has an
// error.
func TestLastHammer(t *testing.T) {
	const parts = 8
	for k := range 200 {
		fails := k%3 - 1
		ends := make(chan error, parts)
		end := Last(parts, func(err error) { ends <- err })
		var wg sync.WaitGroup
		for i := range parts {
			wg.Go(func() {
				if i <= fails {
					end(ErrClosed)
				} else {
					end(nil)
				}
			})
		}
		wg.Wait()
		require.Len(t, ends, 1)
		if err := <-ends; fails >= 0 {
			require.Equal(t, ErrClosed, err)
		} else {
			require.NoError(t, err)
		}
	}
}

// Several parts have one end, after the last part, with the error of the first part that has
// failed.
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
	done := func(error) {}
	require.Zero(t, testing.AllocsPerRun(10, func() { Last(1, done)(nil) }), "one part calls done directly")
}
