// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/nam"
)

// A store whose database was replaced by that of an empty store: ls removes nothing and shows what
// is set aside, restore and drop deal with it.
func TestNamSetAside(t *testing.T) {
	dir, empty := t.TempDir(), t.TempDir()
	for _, name := range []string{"a", "b", "c", "d"} {
		newTestWindow(t, dir, name, 2)
	}
	s, err := nam.Open(empty, nam.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	older, err := os.ReadFile(filepath.Join(empty, "meta.db"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "meta.db"), older, 0o600))

	r := weft("nam", "ls", "-C", dir)
	require.Zero(t, r.status, r.errOut)
	require.Regexp(t, `(?m)^a +set aside +managed_contiguous +persistent +2 +2\.9 KiB +1 `, r.out)
	r = weft("nam", "ls", "--json", "-C", dir)
	var all []map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.out), &all))
	require.Len(t, all, 4)
	require.Equal(t, "set aside", all[0]["state"])

	r = weft("nam", "stat", "-C", dir, "a")
	require.Zero(t, r.status, r.errOut)
	require.Regexp(t, `(?m)^state +set aside$`, r.out)
	id := regexp.MustCompile(`(?m)^id +(\w+)$`).FindStringSubmatch(r.out)[1]

	r = weft("nam", "restore", "-C", dir, id, "--as", "b2")
	require.Zero(t, r.status, r.errOut)
	require.Equal(t, "restored b2\n", r.out)
	r = weft("nam", "drop", "-C", dir, "b", "b2")
	require.Equal(t, exitFailure, r.status, "b2 is set aside no more")
	require.Equal(t, "dropped b\n", r.out)
	require.Contains(t, r.errOut, `"b2"`)
	newTestWindow(t, dir, "c", 1)
	r = weft("nam", "restore", "-C", dir, "--all")
	require.Equal(t, exitFailure, r.status)
	require.Equal(t, "restored d\n", r.out)
	require.Contains(t, r.errOut, `"c" (ready`)
	r = weft("nam", "restore", "-C", dir, "c", "--as", "c2")
	require.Zero(t, r.status, r.errOut)
	r = weft("nam", "restore", "-C", dir, "--all")
	require.Zero(t, r.status, r.errOut)
	require.Contains(t, r.out, "nothing is set aside in")
	r = weft("nam", "ls", "-C", dir)
	require.Regexp(t, `(?s)\nb2 +ready.*\nc +ready.*\nc2 +ready.*\nd +ready`, r.out)
	require.NotContains(t, r.out, "set aside")

	// Without a database there is nothing to list, and nothing is lost.
	require.NoError(t, os.Remove(filepath.Join(dir, "meta.db")))
	for _, args := range [][]string{{"nam", "ls"}, {"nam", "stat", "c"}, {"nam", "rm", "c"}} {
		r = weft(append(args, "-C", dir)...)
		require.Equal(t, exitFailure, r.status)
		require.Contains(t, r.errOut, "4 windows can be brought back from the files: weft nam repair -C "+dir)
	}
	r = weft("nam", "repair", "-C", dir)
	require.Zero(t, r.status, r.errOut)
	require.Contains(t, r.out, "made a new database with 4 windows: ")
	r = weft("nam", "repair", "-C", dir)
	require.Zero(t, r.status, r.errOut)
	require.Contains(t, r.out, "nothing to repair")
	r = weft("nam", "stat", "-C", dir, "b2", "c", "c2", "d")
	require.Zero(t, r.status, r.errOut)

	// A damaged header.
	r = weft("nam", "stat", "-C", dir, "d")
	id = regexp.MustCompile(`(?m)^id +(\w+)$`).FindStringSubmatch(r.out)[1]
	f, err := os.OpenFile(filepath.Join(dir, "alloc", id+".seg"), os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("damaged "), 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	r = weft("nam", "stat", "-C", dir, "d")
	require.Zero(t, r.status, r.errOut)
	require.Regexp(t, `(?m)^state +damaged$`, r.out)
	require.Regexp(t, `(?m)^problem .*begins with "damaged "`, r.out)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "meta.db"), older, 0o600))
	r = weft("nam", "ls", "-C", dir)
	require.Zero(t, r.status, r.errOut)
	require.Regexp(t, `(?m)^`+id+` +set aside +\? `, r.out)
	r = weft("nam", "stat", "-C", dir, id)
	require.Regexp(t, `(?m)^problem .*begins with "damaged "`, r.out)
	r = weft("nam", "restore", "-C", dir, id)
	require.Equal(t, exitFailure, r.status)
	require.Contains(t, r.errOut, "cannot be restored")
	r = weft("nam", "drop", "-C", dir, id)
	require.Zero(t, r.status, r.errOut)
	require.NotContains(t, weft("nam", "ls", "-C", dir).out, id)
}

func TestNamAcceptAndUsage(t *testing.T) {
	dir := t.TempDir()
	newTestWindow(t, dir, "w", 1)
	r := weft("nam", "accept", "-C", dir, "w")
	require.Zero(t, r.status, r.errOut)
	require.Equal(t, "accepted w\n", r.out)
	r = weft("nam", "accept", "-C", dir, "v")
	require.Equal(t, exitFailure, r.status)
	require.Contains(t, r.errOut, "has w")
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"nam", "restore"}, "takes the names or ids of one or more windows, or --all"},
		{[]string{"nam", "restore", "--all", "x"}, "takes no names with --all"},
		{[]string{"nam", "restore", "--as", "y", "x", "z"}, "takes one window for --as"},
		{[]string{"nam", "restore", "--as", "y", "--all"}, "--as is for one window"},
		{[]string{"nam", "restore", "x", "--as", ""}, `--as: window name "": legal are 1 to 255 bytes of UTF-8`},
		{[]string{"nam", "restore", "x", "--as", "a b"}, `--as: window name "a b": blanks and control characters are not legal`},
		{[]string{"nam", "drop"}, "takes the names or ids"},
		{[]string{"nam", "accept"}, "takes the names"},
		{[]string{"nam", "repair", "x"}, "takes no arguments"},
	} {
		r := weft(row.args...)
		require.Equal(t, exitUsage, r.status, row.args)
		require.Contains(t, r.errOut, row.want)
	}
	for _, verb := range []string{"restore", "drop", "accept", "repair"} {
		r := weft("nam", verb, "-h")
		require.Zero(t, r.status)
		require.Contains(t, r.out, "Usage:")
	}
	r = weft("nam", "repair", "-C", filepath.Join(dir, "nothing"))
	require.Equal(t, exitFailure, r.status)
	require.Contains(t, r.errOut, "no store")
}
