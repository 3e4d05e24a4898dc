// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam

import (
	"fmt"

	"weft/comm"
	"weft/nam/internal/store"
)

// Attach opens a window that some program has allocated, by name. Collective over c, which may have any number of
// ranks; the name counts on rank 0. The window has the regions of the group that made it: RemoteSize of them, each with
// its size and unit. It is treated as persistent: Free leaves the memory where it is, unless SetInfo has made the
// window volatile. Fences of an attached window order its operations as always, but do not move Epochs, which counts
// what the makers completed.
//
// Options: ReadOnly, Unsynced, or FromInfo with psnam_window_connect. Errors, on all ranks alike: ErrName, ErrAccess, ErrInfo,
// ErrCorrupt, also ErrLost if part of the memory is not there, ErrUnsynced, ErrClosed.
func (s *Store) Attach(c *comm.Comm, name string, opts ...Option) (*Win, error) {
	set, err := newSettings(opts)
	if err == nil && *set != (settings{readOnly: set.readOnly, unsynced: set.unsynced}) {
		err = fmt.Errorf("%w: Attach takes ReadOnly and Unsynced and nothing else: the window is what it was made to be", ErrInfo)
	}
	if err == nil && bool(set.unsynced) && !bool(set.readOnly) {
		err = fmt.Errorf("%w: Unsynced is for reading only: add ReadOnly, or take the window as it is with Accept", ErrInfo)
	}
	if err := agree(c, "attach", name, err); err != nil {
		return nil, err
	}
	if err := s.sameStore(c); err != nil {
		return nil, fail("attach", name, err)
	}
	var h *store.Handle
	var id store.ID
	if c.Rank() == 0 {
		if h, err = s.st.Attach(name, bool(set.readOnly), bool(set.unsynced)); err == nil {
			id = h.Record().ID
		} else {
			err = s.hint(err, name)
		}
	}
	if err := agree(c, "attach", name, err); err != nil {
		return nil, letGo(h, err)
	}
	if err := c.Bcast(comm.Of(id[:]), 0); err != nil {
		return nil, letGo(h, fail("attach", name, err))
	}
	if c.Rank() != 0 {
		h, err = s.st.AttachID(id, bool(set.readOnly), bool(set.unsynced))
	}
	if err := agree(c, "attach", name, err); err != nil {
		return nil, letGo(h, err)
	}
	w, err := newWin(s, c, h, set, nil, false, 0)
	if err != nil {
		return nil, fail("attach", name, err)
	}
	return w, nil
}

// letGo returns why an attach has failed, after it has given back what this rank has of the window,
// if anything.
func letGo(h *store.Handle, err error) error {
	if h != nil {
		_ = h.Release() // err is the cause; the next user of the window is told its state
	}
	return err
}
