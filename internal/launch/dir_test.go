// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/internal/env"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDetect(t *testing.T) {
	detect := func(kv ...string) (*Identity, error) {
		for _, v := range []string{env.Rank.Name, env.Ranks.Name, env.Job.Name} {
			t.Setenv(v, "")
		}
		for i := 0; i < len(kv); i += 2 {
			t.Setenv(kv[i], kv[i+1])
		}
		return Detect()
	}
	p, err := detect(env.Ranks.Name, "4")
	require.NoError(t, err)
	require.Nil(t, p, "WEFT_RANKS alone is set by the user")
	p, err = detect(env.Rank.Name, "3", env.Ranks.Name, "4", env.Job.Name, "/d")
	require.NoError(t, err)
	require.Equal(t, Identity{3, 4, "/d"}, *p)
	require.Equal(t, []string{"WEFT_RANK=3", "WEFT_RANKS=4", "WEFT_JOB=/d"}, p.Environ())
	for _, bad := range [][]string{
		{env.Rank.Name, "0"}, {env.Job.Name, "/d"}, {env.Job.Name, "/d", env.Rank.Name, "0"}, {env.Job.Name, "/d", env.Ranks.Name, "2"},
		{env.Job.Name, "/d", env.Rank.Name, "2", env.Ranks.Name, "2"}, {env.Job.Name, "/d", env.Rank.Name, "-1", env.Ranks.Name, "2"},
		{env.Job.Name, "/d", env.Rank.Name, "x", env.Ranks.Name, "2"}, {env.Job.Name, "/d", env.Rank.Name, "0", env.Ranks.Name, "5000"},
	} {
		_, err := detect(bad...)
		require.ErrorIs(t, err, ErrEnvironment, bad)
		require.ErrorContains(t, err, "WEFT_", bad)
	}
	require.True(t, Reserved("WEFT_JOB"))
	require.False(t, Reserved("WEFT_WORKERS"))
}

func TestNode(t *testing.T) {
	emulated := func(n string) (NodeID, error) {
		t.Setenv(env.Node.Name, n)
		return Node()
	}
	a, err := emulated("")
	require.NoError(t, err)
	b, err := emulated("")
	require.NoError(t, err)
	require.Equal(t, a, b)
	seen := map[NodeID]string{a: ""}
	for _, n := range []string{"0", "1", "2147483647"} {
		id, err := emulated(n)
		require.NoError(t, err)
		require.Len(t, string(id), nodeIDSize)
		require.NotContains(t, seen, id)
		seen[id] = n
	}
	for _, bad := range []string{"-1", "x", "2147483648", "1 ", "0x1", "1.0"} {
		_, err := emulated(bad)
		require.ErrorIs(t, err, ErrEnvironment)
		require.ErrorContains(t, err, "legal: 0 to 2147483647")
	}
}

func TestBaseDirs(t *testing.T) {
	ok := t.TempDir()
	short, err := os.MkdirTemp("", "l")
	require.NoError(t, err)
	defer os.RemoveAll(short)
	long := filepath.Join(ok, strings.Repeat("x", 100))
	require.NoError(t, os.Mkdir(long, 0o700))
	dir, id, err := makeDir([]string{long, filepath.Join(short, "missing"), short}, nil)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(short, dirPrefix+id), dir)
	require.Equal(t, id, jobID(dir))
	_, _, err = makeDir([]string{long, filepath.Join(short, "missing")}, nil)
	require.ErrorContains(t, err, "too long")
	require.ErrorContains(t, err, "missing")

	// Not the root of the file system: if Remove were wrong, this test would empty the machine.
	require.Empty(t, jobID("/"))
	for _, bad := range []string{"", short, "weft-job-0011223344556677", short + "/weft-job-xx"} {
		require.Error(t, Remove(bad), bad)
	}
	require.DirExists(t, dir)
	require.NoError(t, Remove(dir))
	require.NoError(t, Remove(dir))
	require.NoDirExists(t, dir)
}

func TestSweep(t *testing.T) {
	s := newTestServer(t, ServerConfig{Ranks: 1})
	home := filepath.Dir(s.dir)
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(s.dir, old, old))

	dead, _, err := makeDir([]string{home}, nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dead, "secret"), nil, 0o600))
	young, _, err := makeDir([]string{home}, nil)
	require.NoError(t, err)
	other := filepath.Join(home, "weft-job-of-another")
	require.NoError(t, os.Mkdir(other, 0o700))
	for _, d := range []string{dead, other} {
		require.NoError(t, os.Chtimes(d, old, old))
	}
	sweep([]string{home})
	require.NoDirExists(t, dead)
	require.DirExists(t, s.dir, "its launcher lives")
	require.DirExists(t, young, "its launcher may be about to listen")
	require.DirExists(t, other)
	require.NoError(t, Remove(young))
	require.NoError(t, os.Remove(other))
}

// The file of a key appears with its whole content, and once, even if several launchers make it.
func TestKeyFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "secret")
	_, err := LoadKey(path, false, nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	keys := make([]*Key, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			k, err := LoadKey(path, true, func(temp string) {
				assert.NoFileExists(t, temp)
				assert.True(t, filepath.IsAbs(temp))
				assert.Equal(t, dir, filepath.Dir(temp))
			})
			assert.NoError(t, err)
			keys[i] = k
		})
	}
	wg.Wait()
	for _, k := range keys {
		require.Equal(t, *keys[0], *k)
	}
	st, err := os.Stat(path)
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.Equal(t, fs.FileMode(0o600), st.Mode())
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	path = filepath.Join(dir, "no", "secret")
	_, err = LoadKey(path, true, nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, path+": ")
}
