// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"weft/bench/internal/harness"
)

func TestParse(t *testing.T) {
	v, err := parse("81.5 ok \n")
	require.NoError(t, err)
	require.Equal(t, 81.5, v)
	v, err = parse("81.5 wrong object 3 has version 2\n")
	require.ErrorIs(t, err, harness.ErrWrongAnswer)
	require.ErrorContains(t, err, "object 3")
	require.Equal(t, 81.5, v)
	for _, bad := range []string{"", "ok", "81.5", "81.5 maybe"} {
		_, err = parse(bad)
		require.Error(t, err, bad)
		require.NotErrorIs(t, err, harness.ErrWrongAnswer)
	}
}

// shell is a tool chain that works on every Unix: its compiler copies a shell script.
func shell(t *testing.T, script string) *Toolchain {
	t.Helper()
	bin := t.TempDir()
	compiler := filepath.Join(bin, "copy")
	require.NoError(t, os.WriteFile(compiler, []byte(script), 0o700))
	return &Toolchain{Name: "shell", Compiler: compiler, Suffix: ".sh", Needs: "a shell", probe: "#!/bin/sh\n"}
}

const copies = "#!/bin/sh\ncp \"$3\" \"$2\" && chmod +x \"$2\"\n" // called with -o OUTPUT SOURCE

func TestKitBuildsOnceAndRemoves(t *testing.T) {
	kit := NewKit(fstest.MapFS{
		"echo.sh": {Data: []byte("#!/bin/sh\nwhile read -r line; do echo \"$1 ok\"; done\n")},
		"dies.sh": {Data: []byte("#!/bin/sh\nexit 0\n")},
	})
	tc := shell(t, copies)
	for _, figure := range []string{"1.5", "2.5"} {
		proc, err := kit.Start(t.Context(), tc, "echo", figure)
		require.NoError(t, err)
		for range 3 {
			v, err := proc.Ask("sample 0 1")
			require.NoError(t, err)
			require.Equal(t, figure == "1.5", v == 1.5)
		}
		require.NoError(t, proc.Close())
		tc.Compiler = "/nonexistent" // the second time nothing is built
	}
	require.Len(t, kit.programs, 1)

	tc.Compiler = shell(t, copies).Compiler
	proc, err := kit.Start(t.Context(), tc, "dies")
	require.NoError(t, err)
	_, err = proc.Ask("sample 0 1")
	require.Error(t, err)
	require.NotErrorIs(t, err, harness.ErrSkipped)
	_ = proc.Close()

	_, err = kit.Start(t.Context(), tc, "missing")
	require.ErrorContains(t, err, "missing.sh")
	require.NotErrorIs(t, err, harness.ErrSkipped, "the tool chain is there: this is a mistake of ours")
	require.NoError(t, kit.Close())
	require.NoDirExists(t, kit.dir)
}

func TestMissingToolsAreSkipped(t *testing.T) {
	broken := shell(t, "#!/bin/sh\necho noise; echo 'x.c:1: fatal error: omp.h: no such file'; exit 1\n")
	kit := NewKit(fstest.MapFS{})
	_, err := kit.Start(t.Context(), broken, "tasks")
	require.ErrorIs(t, err, harness.ErrSkipped)
	require.ErrorContains(t, err, "install a shell")
	require.ErrorContains(t, err, "omp.h")
	require.NoError(t, kit.Close())

	t.Setenv("PATH", t.TempDir())
	for _, tc := range Toolchains() {
		kit := NewKit(fstest.MapFS{})
		_, err := kit.Start(t.Context(), tc, "tasks")
		require.ErrorIs(t, err, harness.ErrSkipped)
		require.ErrorContains(t, err, tc.Compiler)
		require.ErrorContains(t, err, tc.Needs)
		require.NoError(t, kit.Close())
	}
}
