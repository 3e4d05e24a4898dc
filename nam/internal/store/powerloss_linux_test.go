// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weft/nam/internal/powerloss"
)

// describer describes states of a disk, each once.
type describer struct {
	t       *testing.T
	boot    ID
	without bool // without the database, which is made again from the files
	seen    map[string]string
}

func (d *describer) describe(s *powerloss.State) string {
	sum := fmt.Sprint(s.Sum(), d.without)
	if text, ok := d.seen[sum]; ok {
		return text
	}
	dir, err := os.MkdirTemp("/dev/shm", "weft-store-test-")
	if err != nil {
		dir, err = os.MkdirTemp("", "weft-store-test-")
	}
	require.NoError(d.t, err)
	defer os.RemoveAll(dir)
	require.NoError(d.t, s.Write(dir))
	if d.without {
		_ = os.Remove(filepath.Join(dir, "s", metaName)) // there may be none
		if _, err := Repair(filepath.Join(dir, "s"), Config{Boot: d.boot}); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "BAD: " + err.Error()
		}
	}
	text := describe(dir, d.boot)
	d.seen[sum] = text
	return text
}

var redundantForces = map[string]string{
	"syncFile by upgradeFile": "what a program of layout 1 wrote and did not force is vouched for from here on",
	"syncFile by flush":       "settle forces the same again, with the store locked; so that this takes no time",
}

// The machine stops at any moment of a protocol, and any part of what was not forced to the disk is
// lost. Then the store is in a state that it had at some moment between the return of the last call
// and the stop. And each force is needed: without it, some stop breaks this.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	needed, asked := map[string]bool{}, map[string]bool{}
	for name, p := range protocols() {
		dir := p.prepared(t)
		d, err := powerloss.New(dir)
		require.NoError(t, err)
		returned := []int{d.Start()}
		require.NoError(t, p.run(dir, d.Call, func() {
			at, err := d.Mark()
			require.NoError(t, err)
			returned = append(returned, at)
		}), name)
		end, err := d.Mark()
		require.NoError(t, err)
		returned = append(returned, end)
		texts := describer{t: t, boot: lastBoot, seen: map[string]string{}}
		full := make([]string, end+1) // if nothing is lost
		for at := d.Start(); at <= end; at++ {
			full[at] = texts.describe(d.Full(at))
			if name != "repair" { // it begins with a database that cannot be used
				require.NotContains(t, full[at], "BAD", name)
			}
		}
		lossAt := func(without string) string {
			for _, at := range returned { // the files alone have all of it
				texts.without = true
				all, wrong := texts.describe(d.Full(at)), ""
				d.States(at, without, func(s *powerloss.State) {
					if text := texts.describe(s); text != all {
						wrong = fmt.Sprintf("%s: stop at %d, and no database: it is\n%s\nand was\n%s", name, at, text, all)
					}
				})
				texts.without = false
				if wrong != "" {
					return wrong
				}
			}
			for _, at := range append(d.Positions(), returned...) {
				from := d.Start()
				for _, r := range returned {
					if r <= at {
						from = max(from, r)
					}
				}
				wrong := ""
				d.States(at, without, func(s *powerloss.State) {
					if wrong == "" {
						if text := texts.describe(s); !slices.Contains(full[from:at+1], text) {
							wrong = fmt.Sprintf("%s: stop at %d, after %d: it is\n%s\nand was\n%s", name, at, from, text, full[at])
						}
					}
				})
				if wrong != "" {
					return wrong
				}
			}
			return ""
		}
		if wrong := lossAt(""); wrong != "" {
			t.Error(wrong)
			d.Close()
			continue
		}
		for _, force := range d.Forces() {
			if testing.Short() {
				break
			}
			asked[force] = true
			if !needed[force] && lossAt(force) != "" {
				needed[force] = true
			}
		}
		d.Close()
	}
	for force := range asked {
		_, explained := redundantForces[force]
		assert.NotEqual(t, needed[force], explained, "%s: needed %v, explained %v", force, needed[force], explained)
	}
}

// A failed force has lost the data, even if the next force succeeds. The caller gets the error, and
// the window never counts these epochs as certain, whatever is done with it later.
func TestFailedForce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"create", "create epoch", "use", "use, epochs", "reader last", "reader after a kill"} {
		p := protocols()[name]
		base := p.prepared(t)
		for i := 0; ; i++ {
			dir := copyStore(t, base)
			d, err := powerloss.New(dir)
			require.NoError(t, err)
			n, failed := 0, ""
			d.Fail = func(op, path, site string) error {
				if !strings.HasPrefix(op, "sync") {
					return nil
				}
				if n++; n-1 != i {
					return nil
				}
				failed = fmt.Sprintf("%s: %s by %s", name, op, site)
				return &fs.PathError{Op: op, Path: path, Err: syscall.EIO}
			}
			err = p.run(dir, d.Call, func() {})
			if failed == "" {
				require.NoError(t, err)
				d.Close()
				break
			}
			require.ErrorIs(t, err, syscall.EIO, failed)
			window := map[bool]string{true: "epoch", false: "old"}[strings.Contains(name, "epoch")]
			if strings.HasPrefix(name, "create") {
				window = map[bool]string{true: "epoch2", false: "new"}[window == "epoch"]
			}
			again := protocol{do: func(s *Store, done func()) error {
				// a reader, and a writer that writes nothing
				for _, readOnly := range []bool{true, false} {
					if h, err := s.Attach(window, readOnly, false); err == nil {
						h.Region(0)
						_ = h.Release() // its error may be the earlier one
					}
				}
				return nil
			}}
			require.NoError(t, again.run(dir, d.Call, func() {}), failed)
			end, err := d.Mark()
			require.NoError(t, err)
			texts := describer{t: t, boot: lastBoot, seen: map[string]string{}}
			d.States(end, "", func(s *powerloss.State) { require.NotContains(t, texts.describe(s), "BAD", failed) })
			d.Close()
			require.NoError(t, os.RemoveAll(dir))
		}
	}
}
