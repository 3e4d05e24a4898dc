// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A database that is emptied while a store is open is not used as a new one.
func TestEmptiedDatabase(t *testing.T) {
	dir := makeWorld(t, nil)
	s, err := Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	meta := filepath.Join(dir, metaName)
	whole := readAll(t, meta)
	require.NoError(t, os.Truncate(meta, 0))
	_, err = s.List()
	require.ErrorIs(t, err, ErrCorrupt)
	err = s.Remove("raw0")
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "it is empty")
	require.Empty(t, readAll(t, meta), "nothing was written")
	require.NoError(t, os.Remove(meta))
	_, err = s.List()
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, metaName+" is missing")
	require.NoFileExists(t, meta)
	require.NoError(t, os.WriteFile(meta, whole, 0o600))
	requireWhole(t, s)
	require.NoError(t, s.Close())
}

// The database is damaged while a store is open: calls return, with or without an error. No lock
// stays held. When the database is put back, the store works again.
func TestDatabaseDamagedWhileOpen(t *testing.T) {
	dir := makeWorld(t, nil)
	s, err := Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	before := segments(t, dir)
	meta := filepath.Join(dir, metaName)
	whole := readAll(t, meta)
	damages := func(whole []byte, yield func(string, []byte)) {
		changeBytes(331)(whole, yield)
		for _, n := range []int{0, 100, 4096, 8192, 12288, 20000} {
			yield("cut", whole[:min(n, len(whole))])
		}
	}
	refused := 0
	damageFile(t, meta, damages, func(what string) {
		for name, call := range map[string]func() error{
			"list":  func() error { _, err := s.List(); return err },
			"aside": func() error { _, err := s.SetAside(); return err },
			"attach": func() error {
				h, err := s.Attach("many", false, false)
				if err == nil {
					err = h.Release()
				}
				return err
			},
			"create": func() error {
				c, err := s.Create(oneRegion("new", 10))
				if err == nil {
					err = c.Abort()
				}
				return err
			},
		} {
			if err := call(); err != nil {
				refused++
				require.True(t, errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion) || errors.Is(err, ErrName), "%s, %s: %v", what, name, err)
			}
			if name == "create" {
				require.NoError(t, os.WriteFile(meta, whole, 0o600))
			}
		}
		require.NoError(t, os.WriteFile(meta, whole, 0o600))
		for file := range segments(t, dir) {
			if _, ok := before[file]; !ok {
				// of a window whose entry could not be written or removed
				require.NoError(t, os.Remove(filepath.Join(dir, allocDir, file)))
			}
		}
		requireWhole(t, s)
	})
	require.Positive(t, refused)
	require.NoError(t, s.Close())
}
