// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// crashed returns a copy of the store as it is on the disk if the machine stops now and nothing is
// lost.
func crashed(t *testing.T, dir string) string { return copyStore(t, dir) }

func TestUnsyncedAfterTheMachineStopped(t *testing.T) {
	dir := memDir(t)
	s, err := Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	var held []*Handle
	for _, w := range worldWindows() {
		h, err := makeWindow(s, w.req)
		require.NoError(t, err)
		for r := range w.req.Regions {
			m := h.Region(r)
			for i := range m {
				m[i] = worldByte(w.req.Name, r, i)
			}
		}
		mustRaise(h, w.epochs)
		held = append(held, h)
	}
	during := crashed(t, dir)
	for _, h := range held {
		require.NoError(t, h.Release())
	}
	after := crashed(t, dir)
	require.NoError(t, s.Close())

	// The programs died and the machine did not; or the programs ended and then the machine
	// stopped. Nothing is lost.
	for dir, boot := range map[string]ID{crashed(t, during): testBoot, after: otherBoot} {
		s, err := Open(dir, Config{Boot: boot})
		require.NoError(t, err)
		requireWhole(t, s)
		require.NoError(t, s.Close())
	}

	// The machine stopped while they were in use.
	s, err = Open(during, Config{Boot: otherBoot})
	require.NoError(t, err)
	for _, w := range worldWindows() {
		name := w.req.Name
		e, err := s.Stat(name)
		require.NoError(t, err)
		require.Equal(t, w.epochs, e.Epochs)
		if w.req.SyncEpoch {
			require.False(t, e.Unsynced)
			require.Equal(t, w.epochs, e.Vouched)
			require.NoError(t, w.whole(s))
			continue
		}
		require.True(t, e.Unsynced)
		require.Zero(t, e.Vouched)
		for _, readOnly := range []bool{false, true} {
			_, err = s.Attach(name, readOnly, false)
			require.ErrorIs(t, err, ErrUnsynced)
			require.ErrorContains(t, err, "can vouch for 0 of them")
		}
		_, err = s.Attach(name, false, true)
		require.ErrorIs(t, err, ErrUnsynced, "a writer has to accept it first")
		h, err := s.Attach(name, true, true)
		require.NoError(t, err)
		require.True(t, h.Unsynced())
		require.Zero(t, epochsOf(h))
		_, err = s.Attach(name, true, false)
		require.ErrorIs(t, err, ErrUnsynced, "also while a reader has it")
		require.ErrorIs(t, s.Accept(name), ErrBusy)
		require.NoError(t, h.Release())
		e, err = s.Stat(name)
		require.NoError(t, err)
		require.True(t, e.Unsynced, "reading changes nothing")
		require.NoError(t, s.Accept(name))
		require.NoError(t, s.Accept(name))
		require.NoError(t, w.whole(s))
	}
	require.ErrorIs(t, s.Accept("nothing"), ErrName)
	require.NoError(t, s.Close())
}

// The certain epochs of a window are those that it had when its last user left, a reader or a
// writer.
func TestLastUserMarksClean(t *testing.T) {
	dir := memDir(t)
	s, err := Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	s2, err := Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	state := func() (vouched uint64, unsynced bool) {
		t.Helper()
		s, err := Open(crashed(t, dir), Config{Boot: otherBoot})
		require.NoError(t, err)
		e, err := s.Stat("w")
		require.NoError(t, err)
		require.NoError(t, s.Close())
		return e.Vouched, e.Unsynced
	}
	requireState := func(vouched uint64, unsynced bool) {
		t.Helper()
		v, u := state()
		require.Equal(t, vouched, v)
		require.Equal(t, unsynced, u)
	}
	h, err := makeWindow(s, oneRegion("w", 100))
	require.NoError(t, err)
	mustRaise(h, 3)
	reader, err := s2.Attach("w", true, false)
	require.NoError(t, err)
	requireState(0, true)
	require.NoError(t, h.Release())
	requireState(0, true) // a user still has it: other processes cannot know that it only reads
	require.NoError(t, reader.Release())
	requireState(3, false)

	h, err = s.Attach("w", false, false)
	require.NoError(t, err)
	requireState(3, true) // from the first moment on
	require.NoError(t, h.Raise(5))
	requireState(3, true)
	writer, err := s2.Attach("w", false, false)
	require.NoError(t, err)
	require.NoError(t, writer.Release())
	requireState(3, true)
	require.NoError(t, h.Release())
	requireState(5, false)

	// A reader of a clean window leaves it clean.
	reader, err = s2.Attach("w", true, false)
	require.NoError(t, err)
	requireState(5, false)
	require.NoError(t, reader.Release())
	requireState(5, false)
	require.NoError(t, s.Close())
	require.NoError(t, s2.Close())
}
