// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/internal/env"
	"weft/internal/fabric/mpi"
	"weft/nam"
)

type result struct {
	status      int
	out, errOut string
}

func weft(args ...string) result {
	var out, errOut bytes.Buffer
	status := run(args, &out, &errOut)
	return result{status, out.String(), errOut.String()}
}

func newTestWindow(t *testing.T, dir, name string, ranks int) {
	t.Helper()
	s, err := nam.Open(dir, nam.Config{})
	require.NoError(t, err)
	require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: ranks}, func(c *comm.Comm) error {
		w, err := s.Allocate(c, 1000*(c.Rank()+1), 8, nam.Persistent, nam.Name(name))
		if err != nil {
			return err
		}
		if err := w.Fence(0); err != nil {
			return err
		}
		return w.Free()
	}))
	require.NoError(t, s.Close())
}

func TestNamCommands(t *testing.T) {
	dir := t.TempDir()
	newTestWindow(t, dir, "heat", 2)
	newTestWindow(t, dir, "other", 1)

	r := weft("nam", "ls", "-C", dir)
	require.Zero(t, r.status, r.errOut)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	require.Len(t, lines, 3)
	require.Regexp(t, `^NAME +STATE +STRUCTURE`, lines[0])
	require.Regexp(t, `^heat +ready +managed_contiguous +persistent +2 +2\.9 KiB +1 `, lines[1])
	require.Regexp(t, `^other +ready`, lines[2])

	r = weft("nam", "--nam-dir", dir, "ls", "--json")
	require.Zero(t, r.status, r.errOut)
	var all []map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.out), &all))
	require.Len(t, all, 2)
	require.Equal(t, "psnam_structure_managed_contiguous", all[0]["structure"])
	require.EqualValues(t, 3000, all[0]["bytes"])

	r = weft("nam", "stat", "heat", "-C", dir)
	require.Zero(t, r.status, r.errOut)
	require.Regexp(t, `(?m)^epochs +1$`, r.out)
	require.Regexp(t, `(?m)^ *1 +2000 +8 +libnam *$`, r.out)

	r = weft("nam", "stat", "het", "-C", dir)
	require.Equal(t, exitFailure, r.status)
	require.Contains(t, r.errOut, `no such window: "het"`)
	require.Contains(t, r.errOut, "heat, other")

	r = weft("nam", "rm", "heat", "nobody", "-C", dir)
	require.Equal(t, exitFailure, r.status)
	require.Equal(t, "removed heat\n", r.out)
	require.Contains(t, r.errOut, "nobody")
	r = weft("nam", "rm", "other", "-C", dir)
	require.Zero(t, r.status, r.errOut)
	r = weft("nam", "ls", "-C", dir)
	require.Equal(t, "no windows in "+dir+"\n", r.out)
	r = weft("nam", "ls", "--json", "-C", dir)
	require.Equal(t, "[]\n", r.out)
	r = weft("nam", "rm", "x", "-C", dir)
	require.Contains(t, r.errOut, "has no windows")
	there := t.TempDir() // exists and is not used yet
	t.Setenv(nam.EnvDir, there)
	r = weft("nam", "ls")
	require.Zero(t, r.status, r.errOut)
	require.Equal(t, "no windows: there is no store in "+there+" yet\n", r.out)
}

func TestNamWithoutAStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nothing")
	for _, args := range [][]string{{"nam", "ls", "-C", dir}, {"nam", "stat", "x", "-C", dir}, {"nam", "rm", "x", "-C", dir}} {
		r := weft(args...)
		require.Equal(t, exitFailure, r.status)
		require.Contains(t, r.errOut, dir)
		require.Contains(t, r.errOut, "no store")
	}
	t.Setenv(nam.EnvDir, dir)
	r := weft("nam", "ls")
	require.Zero(t, r.status, r.errOut)
	require.Contains(t, r.out, dir)
	require.Equal(t, "[]\n", weft("nam", "ls", "--json").out)
	_, err := os.Stat(dir)
	require.ErrorIs(t, err, os.ErrNotExist, "ls must not make a store")
	newTestWindow(t, dir, "w", 1)
	require.Contains(t, weft("nam", "ls").out, "\nw ")
}

func TestUsage(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"frobnicate"}, `unknown command "frobnicate" for "weft"; legal are info, lint, nam, run`},
		{[]string{"nam", "frobnicate"}, "legal are accept, drop, ls, repair, restore, rm, stat"},
		{[]string{"nam", "ls", "x"}, "takes no arguments, not 1"},
		{[]string{"nam", "rm"}, "takes the names of one or more windows"},
		{[]string{"nam", "stat"}, "takes the names of one or more windows"},
		{[]string{"nam", "ls", "--frob"}, "--frob"},
		{[]string{"info", "x"}, "takes no arguments"},
	} {
		r := weft(row.args...)
		require.Equal(t, exitUsage, r.status, row.args)
		require.Contains(t, r.errOut, row.want)
		require.Contains(t, r.errOut, "-h'")
		require.Empty(t, r.out)
	}
	for _, args := range [][]string{{}, {"-h"}, {"nam"}, {"nam", "-h"}, {"nam", "ls", "-h"}, {"info", "-h"}} {
		r := weft(args...)
		require.Zero(t, r.status, args)
		require.Contains(t, r.out, "Usage:")
	}
}

func TestInfo(t *testing.T) {
	t.Setenv("WEFT_RANKS", "3")
	t.Setenv("WEFT_NAM_DIR", "")
	t.Setenv("WEFT_WORKERS", "")
	r := weft("info")
	require.Zero(t, r.status, r.errOut)
	require.Regexp(t, `(?m)^WEFT_RANKS +3 +environment`, r.out)
	require.Regexp(t, `(?m)^WEFT_NAM_DIR +\S*nam +default`, r.out)
	require.Regexp(t, `(?m)^WEFT_WORKERS +[0-9]+ +default`, r.out)
	require.Contains(t, r.out, "go1.")

	t.Setenv("WEFT_WORKERS", "many")
	t.Setenv("WEFT_RANG", "3")
	t.Setenv("WEFT_RANK", "3")
	t.Setenv("WEFT_BOUND", "all")
	t.Setenv("PSP_DEBUG", "2")
	t.Setenv("PSP_SMP_NODE_ID", "one")
	t.Setenv("PSP_OF_SOMEBODY_ELSE", "1")
	r = weft("info", "--json")
	require.Equal(t, exitFailure, r.status)
	require.Contains(t, r.errOut, `WEFT_WORKERS="many"; legal: 1 to 4096 (number of slots of`)
	require.Contains(t, r.errOut, `WEFT_RANG="3": no such variable; did you mean WEFT_RANK?`)
	require.Contains(t, r.errOut, `PSP_DEBUG="2": ParaStation MPI's, which weft does not have`)
	require.Contains(t, r.errOut, `WEFT_BOUND="all"; "all" is not a processor`)
	require.Contains(t, r.errOut, `WEFT_RANK="3" without WEFT_JOB`)
	require.Contains(t, r.errOut, `PSP_SMP_NODE_ID="one"; legal: 0 to 2147483647`)
	require.NotContains(t, r.errOut, "SOMEBODY")
	for name, wrong := range map[string]string{"WEFT_WORKERS": "4097", "WEFT_WINDOW": "1073741825", "WEFT_RANKS": "1048577", "PSP_RETRY": "1001", "PSP_DEADLOCK_WARNINGS": "-2"} {
		t.Setenv(name, wrong)
		require.Contains(t, weft("info").errOut, fmt.Sprintf("%s=%q", name, wrong))
		t.Setenv(name, "")
	}
	var a about
	require.NoError(t, json.Unmarshal([]byte(r.out), &a))
	require.Len(t, a.Variables, len(env.Table)+2)
	for i, v := range env.Table {
		require.Equal(t, v.Name, a.Variables[i].Name)
	}
	require.Equal(t, "inproc", a.Fabrics[0].Name)
	for _, f := range a.Fabrics {
		if f.Name == "mpi" && !mpi.Built {
			require.Contains(t, f.Problem, "-tags mpi")
			continue
		}
		require.Empty(t, f.Problem, f.Name)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 30: "1.0 GiB", 1<<63 - 1: "8.0 EiB"} {
		require.Equal(t, want, size(n))
	}
}
