// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// callLog collects a store's calls of the operating system: locks, mappings, forces and changes of
// the files of windows.
type callLog struct{ all []string }

func (a *callLog) call(op, path string, _, _ int, call func() error) error {
	switch filepath.Base(path) {
	case lockName, metaName, metaTemp:
	default:
		if op != "open" && op != "close" && op != "read" && op != "mkdir" {
			a.all = append(a.all, op)
		}
	}
	return call()
}

func (a *callLog) by(t *testing.T, fn func() error) string {
	t.Helper()
	a.all = nil
	require.NoError(t, fn())
	return strings.Join(a.all, " ")
}

// The calls of a user when it attaches and when it leaves. The first writer marks the window. A
// writer forces both files before it locks the store. The last user forces them again, under the
// lock, and marks the window as clean. No other user forces anything.
func TestWhatUsersForce(t *testing.T) {
	const (
		attach = "lock map map"
		marks  = "lock map syncRange map"
		flush  = "syncFile syncFile "
		used   = "lock"                                  // another process uses it
		settle = "lock syncFile syncFile write syncFile" // no other process uses it
		reader = "lock syncFile syncFile "               // data that a killed writer may have left
		// the first file last, and the directory twice
		sweep = "lock remove syncFile remove syncFile"
	)
	type world struct {
		s, other *Store
		hold     func(readOnly bool) // by another process, until the end
		killed   func()              // another process has written, and was killed
	}
	for name, row := range map[string]struct {
		epoch, readOnly bool
		before, between func(w *world)
		come, leave     string
	}{
		"writer":                      {come: marks, leave: flush + settle},
		"writer beside a writer":      {before: func(w *world) { w.hold(false) }, come: attach, leave: flush + used},
		"writer beside a reader":      {before: func(w *world) { w.hold(true) }, come: marks, leave: flush + used},
		"writer after a kill":         {before: func(w *world) { w.killed() }, come: attach, leave: flush + settle},
		"reader":                      {readOnly: true, come: attach, leave: ""},
		"reader beside a writer":      {readOnly: true, before: func(w *world) { w.hold(false) }, come: attach, leave: used},
		"reader, and a kill":          {readOnly: true, between: func(w *world) { w.killed() }, come: attach, leave: reader + settle},
		"writer, epochs":              {epoch: true, come: attach, leave: ""},
		"reader, epochs":              {epoch: true, readOnly: true, come: attach, leave: ""},
		"removed meanwhile":           {between: func(w *world) { require.NoError(t, w.other.Remove("w")) }, come: marks, leave: sweep},
		"removed, beside another":     {before: func(w *world) { w.hold(true) }, between: func(w *world) { require.NoError(t, w.other.Remove("w")) }, come: marks, leave: used},
		"made volatile":               {between: func(w *world) { require.NoError(t, w.other.SetVolatile(mustStat(w.other, "w").ID, true)) }, come: marks, leave: sweep},
		"another run, no name for it": {before: func(w *world) { w.s.boot = ID{} }, come: attach, leave: ""},
	} {
		dir := memDir(t)
		a := &callLog{}
		s, err := Open(dir, Config{Boot: testBoot, System: a.call})
		require.NoError(t, err)
		other, err := Open(dir, Config{Boot: testBoot})
		require.NoError(t, err)
		req := slotted("w")
		req.SyncEpoch = row.epoch
		h, err := makeWindow(s, req)
		require.NoError(t, err)
		require.NoError(t, h.Release())
		var held []*Handle
		w := &world{s: s, other: other}
		w.hold = func(readOnly bool) {
			h, err := other.Attach("w", readOnly, false)
			require.NoError(t, err)
			held = append(held, h)
		}
		w.killed = func() {
			h, err := other.Attach("w", false, false)
			require.NoError(t, err)
			require.NoError(t, h.unmap())
			delete(other.handles, h.key)
		}
		if row.before != nil {
			row.before(w)
		}
		come := a.by(t, func() (err error) { h, err = s.Attach("w", row.readOnly, false); return err })
		assert.Equal(t, row.come, come, name)
		second := a.by(t, func() error { // a second user in this process makes no calls
			h2, err := s.Attach("w", row.readOnly, false)
			require.NoError(t, err)
			require.Same(t, h, h2)
			return h2.Release()
		})
		require.Empty(t, second, name)
		if row.between != nil {
			row.between(w)
		}
		assert.Equal(t, row.leave, a.by(t, h.Release), name)
		for _, h := range held {
			require.NoError(t, h.Release())
		}
		requireSound(t, other)
		require.NoError(t, s.Close())
		require.NoError(t, other.Close())
	}
}
