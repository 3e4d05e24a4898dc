// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"
	"fmt"

	"weft/comm"
	"weft/examples/heat/internal/grid"
	"weft/nam"
)

// Create makes the window for the snapshots that head describes. With epoch, each complete snapshot
// is forced to the disk. It is collective over all ranks of head's layout.
func Create(s *nam.Store, c *comm.Comm, head *Header, name string, epoch bool) (*nam.Win, error) {
	sync := nam.SyncProcess
	if epoch {
		sync = nam.SyncEpoch
	}
	// Prefault moves the page faults of the first access to each page out of the run.
	return s.Allocate(c, head.RegionBytes(c.Rank()), 1,
		nam.ManagedContiguous, nam.Persistent, nam.Name(name), nam.Prefault(true), sync)
}

// Reader reads the complete snapshots of a window.
type Reader struct {
	Header   Header
	Complete int // number of complete snapshots, which can be read
	// number of further snapshots that the run has completed, but whose data may not be on the disk
	Unsynced int
	win      *nam.Win
}

// Read attaches to a window by name and calls f with a Reader, which must not be used afterwards. A
// run may be writing to the window: complete snapshots do not change any more.
func Read(ctx context.Context, s *nam.Store, name string, f func(r *Reader) error) error {
	return comm.Run(ctx, comm.Config{Ranks: 1}, func(c *comm.Comm) error {
		win, err := s.Attach(c, name, nam.ReadOnly(true))
		r := &Reader{}
		if unsynced := err; errors.Is(err, nam.ErrUnsynced) {
			win, err = s.Attach(c, name, nam.ReadOnly(true), nam.Unsynced(true))
			if err == nil && win.Epochs() < 2 {
				return errors.Join(unsynced, win.Free())
			}
			if a, serr := s.Stat(name); serr == nil {
				r.Unsynced = int((a.Epochs - a.Vouched) / 2)
			}
		}
		if err != nil {
			return err
		}
		r.win = win
		if err = r.open(); err == nil {
			err = f(r)
		}
		if e := win.Free(); err == nil {
			err = e
		}
		return err
	})
}

// open reads the header and compares it with the window.
func (r *Reader) open() error {
	epochs := r.win.Epochs()
	if epochs < 2 {
		return fmt.Errorf("window %s has no complete snapshot yet", r.win.Name())
	}
	size, _ := r.win.Region(0)
	if size < HeaderBytes {
		return fmt.Errorf("window %s: %w: its first region has %d bytes", r.win.Name(), ErrHeader, size)
	}
	page := make([]byte, HeaderBytes)
	if err := r.get(comm.Of(page), 0, 0); err != nil {
		return err
	}
	h, err := Decode(page)
	if err != nil {
		return fmt.Errorf("window %s: %w", r.win.Name(), err)
	}
	if h.Layout.Ranks != r.win.RemoteSize() {
		return fmt.Errorf("window %s: %w: it says %d ranks, the window has %d", r.win.Name(), ErrHeader, h.Layout.Ranks, r.win.RemoteSize())
	}
	for rank := range h.Layout.Ranks {
		if size, unit := r.win.Region(rank); unit != 1 || size != h.RegionBytes(rank) {
			return fmt.Errorf("window %s: %w: the region of rank %d has %d bytes in units of %d, not %d in units of 1",
				r.win.Name(), ErrHeader, rank, size, unit, h.RegionBytes(rank))
		}
	}
	r.Header = *h
	r.Complete = int(min(epochs/2, uint64(h.Snapshots)))
	return nil
}

// get reads a part of a region.
func (r *Reader) get(dst comm.Buffer, rank, at int) error {
	if err := r.win.Fence(0); err != nil {
		return err
	}
	if err := r.win.Get(dst, rank, at); err != nil {
		return err
	}
	return r.win.Fence(0)
}

// Rows calls f with parts of rows until the whole snapshot has been passed; rows and columns count
// from 0. It needs memory for a row of blocks.
func (r *Reader) Rows(n int, f func(row, col int, cells []float64)) error {
	l := r.Header.Layout
	buf := make([]float64, l.BlockCols()*l.BlockCells())
	for rank := range l.Ranks {
		for br := range l.BlockRows() {
			if err := r.get(comm.Of(buf), rank, r.Header.Offset(rank, n, br, 0)); err != nil {
				return err
			}
			r.deal(buf, rank*l.RankRows()+br*l.RowBlock, l, f)
		}
	}
	return nil
}

// deal calls f for each row of each block in a row of blocks.
func (r *Reader) deal(buf []float64, row int, l grid.Layout, f func(row, col int, cells []float64)) {
	for bc := range l.BlockCols() {
		block := buf[bc*l.BlockCells():][:l.BlockCells()]
		for i := range l.RowBlock {
			f(row+i, bc*l.ColBlock, block[i*l.ColBlock:][:l.ColBlock])
		}
	}
}
