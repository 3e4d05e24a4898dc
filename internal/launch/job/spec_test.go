// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weft/internal/env"

	"github.com/stretchr/testify/require"
)

// requireStatus checks the text of an error and the exit status that goes with it.
func requireStatus(t *testing.T, err error, status int, text string, about any) {
	t.Helper()
	require.ErrorContains(t, err, text, about)
	var e *Error
	require.ErrorAs(t, err, &e, about)
	require.Equal(t, status, e.Status, about)
	require.Equal(t, e.Err, errors.Unwrap(e))
}

// Numbers of a job are legal up to each bound and not beyond it. Fields that are not set have their
// defaults.
func TestSpecsAtTheEdges(t *testing.T) {
	sh := func(ranks ...int) (p []Part) {
		for _, n := range ranks {
			p = append(p, Part{Ranks: n, Program: "sh"})
		}
		return p
	}
	for _, row := range []struct {
		spec  Spec
		wrong string
	}{
		{Spec{}, "there is no program to run"}, {Spec{Parts: sh(1)}, ""},
		{Spec{Parts: sh(1), Grace: -1}, "a time limit of 0s and a grace of -1ns; they cannot be negative"}, {Spec{Parts: sh(1), Grace: 1}, ""},
		{Spec{Parts: sh(1), Timeout: -1}, "a time limit of -1ns and a grace of 5s; they cannot be negative"}, {Spec{Parts: sh(1), Timeout: 1}, ""},
		{Spec{Parts: sh(0)}, "0 ranks of sh; 1 to 4096 are legal"}, {Spec{Parts: sh(-1)}, "-1 ranks of sh"}, {Spec{Parts: sh(1, 0)}, "0 ranks of sh"}, {Spec{Parts: sh(4096)}, ""}, {Spec{Parts: sh(4097)}, "4097 ranks of sh"},
		{Spec{Parts: sh(4095, 1)}, ""}, {Spec{Parts: sh(4095, 2)}, "4097 ranks in all; at most 4096 are legal"},
		{Spec{Parts: sh(1), Listen: "x:1", SecretFile: "f", Elsewhere: 4095}, ""}, {Spec{Parts: sh(1), Listen: "x:1", SecretFile: "f", Elsewhere: 4096}, "4097 ranks in all"},
		{Spec{Parts: []Part{{Ranks: 1}}}, "the name of the program is empty"}, {Spec{Parts: []Part{{Ranks: 1, Program: "sh"}, {Ranks: 1}}}, "the name of the program is empty"},
	} {
		progs, err := row.spec.check()
		if row.wrong != "" {
			requireStatus(t, err, StatusUsage, row.wrong, row.spec)
			require.Nil(t, progs)
			continue
		}
		require.NoError(t, err, row.spec)
		i := 0
		for part, p := range row.spec.Parts {
			for range p.Ranks {
				require.Equal(t, part, progs[i].part)
				i++
			}
		}
		require.Len(t, progs, i)
		require.Equal(t, DefaultWait, row.spec.Wait)
		require.Equal(t, map[bool]time.Duration{true: 1, false: DefaultGrace}[row.spec.Grace == 1], row.spec.Grace)
	}
	for _, row := range []struct {
		spec  Spec
		wrong string
	}{
		{Spec{}, ""},
		{Spec{Listen: "x:1", Join: "y:2", SecretFile: "f"}, "a launcher either listens (x:1) or joins one that does (y:2)"},
		{Spec{Listen: "x:1", Elsewhere: 1}, "need a file with a secret that all of them know"}, {Spec{Join: "x:1"}, "need a file with a secret"},
		{Spec{SecretFile: "f"}, "are for launchers that listen or join"}, {Spec{Elsewhere: 1}, "are for launchers that listen or join"}, {Spec{Elsewhere: -1}, "are for launchers that listen or join"},
		{Spec{First: 1}, "are for launchers that listen or join"}, {Spec{Wait: 1}, "are for launchers that listen or join"},
		{Spec{Listen: "x:1", SecretFile: "f"}, "0 ranks elsewhere; a launcher that listens waits for 1 to 4096"}, {Spec{Listen: "x:1", SecretFile: "f", Elsewhere: 1, Wait: 1}, ""},
		{Spec{Listen: "x:1", SecretFile: "f", Elsewhere: 4096}, ""}, {Spec{Listen: "x:1", SecretFile: "f", Elsewhere: 4097}, "4097 ranks elsewhere"}, {Spec{Listen: "x:1", SecretFile: "f", Elsewhere: -1}, "-1 ranks elsewhere"},
		{Spec{Join: "x:1", SecretFile: "f", Elsewhere: 1}, "this one joins"}, {Spec{Join: "x:1", SecretFile: "f", Wait: 1}, ""},
		{Spec{Join: "x:1", SecretFile: "f", First: -1}, "first rank -1; it is for a launcher that joins, and 1 to 4095"}, {Spec{Join: "x:1", SecretFile: "f", First: 1}, ""},
		{Spec{Join: "x:1", SecretFile: "f", First: 4095}, ""}, {Spec{Join: "x:1", SecretFile: "f", First: 4096}, "first rank 4096"},
		{Spec{Listen: "x:1", SecretFile: "f", Elsewhere: 1, First: 1}, "first rank 1; it is for a launcher that joins"},
		{Spec{Listen: "x", SecretFile: "f", Elsewhere: 1}, `address "x"; it must be HOST:PORT`}, {Spec{Join: "x", SecretFile: "f"}, `address "x"; it must be HOST:PORT`}, {Spec{Join: ":1", SecretFile: "f"}, ""},
	} {
		if err := row.spec.checkSpread(); row.wrong == "" {
			require.NoError(t, err, row.spec)
		} else {
			requireStatus(t, err, StatusUsage, row.wrong, row.spec)
		}
		row.spec.Parts = sh(1)
		_, err := row.spec.check()
		if row.wrong == "" && row.spec.Elsewhere < 4096 {
			require.NoError(t, err)
		} else {
			require.Error(t, err, row.spec)
		}
	}
}

// The program, the directory and the environment of a part.
func TestPartsAtTheEdges(t *testing.T) {
	dir := t.TempDir()
	dir, err := filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	t.Chdir(dir)
	file := func(name string, mode fs.FileMode) {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte("#!/bin/sh\n"), mode))
	}
	file("here", 0o755)
	file("plain", 0o644)
	file("d/there", 0o755)
	file("d/sub/plain", 0o644)
	file("bin/found", 0o755)
	file("bin/plain", 0o644)
	t.Setenv("PATH", filepath.Join(dir, "bin"))
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, row := range []struct {
		name, dir string
		path      string // or the error, with its status
		status    int
	}{
		{"found", "", at("bin/found"), 0}, {"found", at("d"), at("bin/found"), 0}, {"./here", "", at("here"), 0}, {at("here"), at("d"), at("here"), 0}, {"./here", at("d"), at("here"), 0},
		{"./there", at("d"), at("d/there"), 0}, {"d/there", "", at("d/there"), 0},
		{"", "", "the name of the program is empty", StatusUsage},
		{"none", "", "none: there is no such program in PATH", StatusNoProgram}, {"here", "", "here: there is no such program in PATH; there is one in the working directory, which is ./here", StatusNoProgram},
		{"d", "", "d: there is no such program in PATH", StatusNoProgram}, {"plain", "", "plain: there is no such program in PATH; there is one in the working directory, which is ./plain", StatusNoProgram},
		{"./none", "", "./none: there is no file " + at("none"), StatusNoProgram}, {"./there", "", "./there: there is no file " + at("there"), StatusNoProgram},
		{"./none", at("d"), "./none: there is no file " + at("none") + " or " + at("d/none"), StatusNoProgram}, {at("none"), at("d"), at("none") + ": there is no file " + at("none"), StatusNoProgram},
		{"./d", "", "./d: cannot be run: it is a directory", StatusCannotRun}, {"./sub", at("d"), "./sub: cannot be run: it is a directory", StatusCannotRun},
		{"./plain", "", "./plain: cannot be run: it is not executable", StatusCannotRun}, {"./sub/plain", at("d"), "./sub/plain: cannot be run: it is not executable", StatusCannotRun},
		{"/dev/null", "", "/dev/null: cannot be run: it is not a regular file", StatusCannotRun}, {"./plain/x", "", "./plain/x: cannot be run: not a directory", StatusCannotRun},
	} {
		path, err := find(row.name, row.dir)
		if row.status == 0 {
			require.NoError(t, err, row)
			require.Equal(t, row.path, path, row)
			continue
		}
		requireStatus(t, err, row.status, row.path, row)
		require.Equal(t, row.path, err.Error())
		require.Empty(t, path)
		_, err = (&Part{Program: row.name, Dir: row.dir}).check()
		require.EqualError(t, err, row.path)
	}
	for _, row := range []struct {
		env, wrong string
	}{
		{"A=", ""}, {"A=b=c", ""}, {"A", `environment "A"; it must be NAME=VALUE`}, {"=b", `environment "=b"; it must be NAME=VALUE`}, {"", `environment ""; it must be NAME=VALUE`},
		{env.Rank.Name + "=1", `environment "WEFT_RANK=1"; WEFT_RANK is set by the launcher`}, {env.Bound.Name + "=", "WEFT_BOUND is set by the launcher"}, {env.Node.Name + "=1", ""},
	} {
		_, err := (&Part{Program: "found", Env: []string{"B=1", row.env}}).check()
		if row.wrong == "" {
			require.NoError(t, err, row)
		} else {
			requireStatus(t, err, StatusUsage, row.wrong, row)
		}
	}
	prog, err := (&Part{Program: "./there", Args: []string{"x", "y"}, Dir: "d", Env: []string{"A=1"}}).check()
	require.NoError(t, err)
	require.Equal(t, program{name: "./there", path: at("d/there"), dir: at("d"), args: []string{"./there", "x", "y"}, env: []string{"A=1"}}, prog)
	for dir, wrong := range map[string]string{"none": "working directory none: no such file or directory", "plain": "working directory plain: it is not a directory"} {
		_, err = (&Part{Program: "found", Dir: dir}).check()
		requireStatus(t, err, StatusUsage, wrong, dir)
		require.Equal(t, wrong, err.Error())
	}
}

// Of several variables with one name the last counts, in the position of the first.
func TestEnviron(t *testing.T) {
	for _, row := range []struct {
		lists [][]string
		want  []string
	}{
		{nil, nil}, {[][]string{{"A=1", "B=2"}}, []string{"A=1", "B=2"}}, {[][]string{{"A=1", "B=2"}, {"A=3"}}, []string{"A=3", "B=2"}},
		{[][]string{{"A=1", "A=2", "B=3"}, {"C=4", "B=5", "A=6"}}, []string{"A=6", "B=5", "C=4"}}, {[][]string{{"=C:=x", "junk", "A=1"}, {"=C:=y", "junk"}}, []string{"=C:=x", "junk", "A=1", "=C:=y", "junk"}},
		{[][]string{{"A=1=2"}, {"A="}}, []string{"A="}}, {[][]string{{"AB=1"}, {"A=2"}}, []string{"AB=1", "A=2"}},
	} {
		require.Equal(t, row.want, environ(row.lists...), "%v", row.lists)
	}
	plain := fmt.Errorf("plain")
	require.Equal(t, plain, cause(plain))
	require.Equal(t, fs.ErrNotExist, cause(fmt.Errorf("wrapped: %w", &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist})))
}
