// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weft/internal/env"

	"github.com/stretchr/testify/require"
)

// A secret's file has 64 hexadecimal digits and at most one newline, and no other user may have
// access to it.
func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, secretFile)
	digits := strings.Repeat("0123456789abcdef", 4)
	for text, wrong := range map[string]string{
		digits: "", digits + "\n": "", strings.ToUpper(digits): "",
		"": "not 64 digits", digits[:63]: "not 64 digits", digits[:63] + "\n": "not hexadecimal", digits[:62] + "\n": "not 64 digits", digits + "0": "not 64 digits", digits + "\n\n": "not 64 digits",
		digits + "0\n": "not 64 digits", digits + digits: "not 64 digits", digits[:63] + "g": "not hexadecimal", "g" + digits[1:] + "\n": "not hexadecimal",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		s, err := readSecret(dir)
		if wrong == "" {
			require.NoError(t, err, "%q", text)
			require.Equal(t, digits, fmt.Sprintf("%x", s[:]))
		} else {
			require.ErrorIs(t, err, ErrProtocol, "%q", text)
			require.ErrorContains(t, err, path+": ")
			require.ErrorContains(t, err, wrong, "%q", text)
		}
	}
	require.NoError(t, os.WriteFile(path, []byte(digits), 0o600))
	for _, mode := range []fs.FileMode{0o610, 0o601, 0o620, 0o602, 0o640, 0o604} {
		require.NoError(t, os.Chmod(path, mode))
		_, err := readSecret(dir)
		require.EqualError(t, err, fmt.Sprintf("%s: others may read it (mode %v)", path, mode))
		_, err = LoadKey(path, true, func(string) { t.Fatal("there is one") })
		require.ErrorContains(t, err, "launch: secret file: "+path+": others may read it")
		require.ErrorContains(t, err, "(it has 64 hexadecimal digits, and mode 0600; a launcher that listens makes it)")
	}
	require.NoError(t, os.Chmod(path, 0o400))
	s := newSecret()
	for range 2 {
		k, err := LoadKey(path, true, func(string) { t.Fatal("there is one") })
		require.NoError(t, err)
		require.Equal(t, digits, fmt.Sprintf("%x", k[:]))
	}
	require.NoError(t, os.Remove(path))
	require.NoError(t, writeSecret(dir, &s))
	got, err := readSecret(dir)
	require.NoError(t, err)
	require.Equal(t, s, got)

	// Another launcher makes the file at the same time: that one counts.
	other := filepath.Join(dir, "other")
	k, err := LoadKey(other, true, func(temp string) {
		require.NoFileExists(t, temp)
		require.NoError(t, os.WriteFile(other, []byte(digits), 0o600))
	})
	require.NoError(t, err)
	require.Equal(t, digits, fmt.Sprintf("%x", k[:]))
	// The file cannot be made under that name, or the temporary one cannot be made in its
	// directory.
	long := filepath.Join(dir, strings.Repeat("x", 300))
	_, err = LoadKey(long, true, nil)
	require.ErrorIs(t, err, syscall.ENAMETOOLONG)
	require.ErrorContains(t, err, "launch: secret file: rename ")
	_, err = LoadKey(filepath.Join(other, "x"), true, nil)
	require.ErrorIs(t, err, syscall.ENOTDIR)
	require.ErrorContains(t, err, "open "+filepath.Join(other, "x")+": ")
	made := filepath.Join(dir, "made")
	k, err = LoadKey(made, true, nil)
	require.NoError(t, err)
	text, err := os.ReadFile(made)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%x\n", k[:]), string(text))
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, list, 3, "no temporary file is left")
}

// Directories are made where the environment says, the best base first, and have their mode
// whatever the umask is. tell gets each path before it is tried.
func TestMakingDirectories(t *testing.T) {
	home := shortDir(t)
	for runtimeDir, want := range map[string][]string{"": {"/t", "/tmp"}, "relative": {"/t", "/tmp"}, "/run//x/": {"/run/x", "/t", "/tmp"}} {
		t.Setenv("XDG_RUNTIME_DIR", runtimeDir)
		t.Setenv("TMPDIR", "/t")
		require.Equal(t, want, baseDirs())
	}
	missing := filepath.Join(home, "missing")
	var told []string
	dir, id, err := makeDir([]string{strings.Repeat("/x", 50), missing, home}, func(dir string) {
		require.NoFileExists(t, dir)
		told = append(told, dir)
	})
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(missing, dirPrefix+id), filepath.Join(home, dirPrefix+id)}, told)
	require.NoError(t, Remove(dir))
	for length, legal := range map[int]bool{maxSocketPath - 1: true, maxSocketPath: true, maxSocketPath + 1: false} {
		base := "/" + strings.Repeat("x", length-len("/"+"/"+dirPrefix+newTestID+"/"+socketFile))
		_, _, err := makeDir([]string{base}, nil)
		require.Equal(t, legal, errors.Is(err, fs.ErrNotExist), "%d: %v", length, err)
		require.Equal(t, !legal, strings.Contains(err.Error(), base+": too long a path for a socket"))
		require.ErrorContains(t, err, "the directory of a job cannot be made: ")
	}

	old := syscall.Umask(0o277)
	dir, _, err = makeDir([]string{home}, nil)
	syscall.Umask(old)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, Remove(dir)) })
	st, err := os.Lstat(dir)
	require.NoError(t, err)
	require.Equal(t, fs.ModeDir|0o700, st.Mode(), dir)
}

// A stale directory is one of a job, private, old, and without a launcher.
func TestStaleDirectories(t *testing.T) {
	home := shortDir(t)
	dir, _, err := makeDir([]string{home}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, Remove(dir)) })
	age := func(d time.Duration) {
		then := time.Now().Add(-d)
		require.NoError(t, os.Chtimes(dir, then, then))
	}
	age(2 * staleAge)
	require.True(t, isStale(dir))
	age(staleAge / 2)
	require.False(t, isStale(dir))
	age(2 * staleAge)
	require.NoError(t, os.Chmod(dir, 0o750))
	require.False(t, isStale(dir))
	require.NoError(t, os.Chmod(dir, 0o700))
	require.True(t, isStale(dir))
	link := filepath.Join(home, dirPrefix+newTestID)
	require.NoError(t, os.Symlink(dir, link))
	require.False(t, isStale(link))
	require.NoError(t, os.Remove(link))
	require.False(t, isStale(link))
	require.NoError(t, os.WriteFile(link, nil, 0o600))
	require.False(t, launcherDead(link), "it is no directory, so it has no dead socket")
	require.NoError(t, os.Remove(link))
	require.False(t, isStale(link))

	socket := filepath.Join(dir, socketFile)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	age(2 * staleAge)
	require.False(t, isStale(dir))
	c, err := l.Accept()
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err = c.Read(make([]byte, 1))
	require.ErrorContains(t, err, "EOF", "it only looks")
	require.NoError(t, c.Close())
	require.NoError(t, l.Close())
	require.FileExists(t, socket)
	require.True(t, isStale(dir))
	require.True(t, removeDead(dir))
	require.NoDirExists(t, dir)
	require.True(t, removeDead(dir))
}

// A launcher whose files cannot be removed returns that when it closes; a second Close does
// nothing.
func TestFilesThatCannotBeRemoved(t *testing.T) {
	t.Chdir(t.TempDir())
	s, err := NewServer(ServerConfig{Ranks: 1, bases: []string{"."}})
	require.NoError(t, err)
	require.EqualError(t, s.Close(), fmt.Sprintf("launch: remove: %q is not the directory of a job", s.dir))
	require.NoError(t, s.Close())
	require.DirExists(t, s.dir)

	of, key := spreadServer(t, 2, 1)
	r, err := JoinJob(t.Context(), RelayConfig{Addr: of.Addr(), Key: key, Ranks: 1, First: -1, Wait: time.Minute, bases: []string{"."}, OnLost: func(error) {}})
	require.NoError(t, err)
	require.EqualError(t, r.Close(), fmt.Sprintf("launch: remove: %q is not the directory of a job", r.dir))
	require.NoError(t, r.Close())
	require.DirExists(t, r.dir)
}

// Errors name the operation and the rank, and match their sentinels.
func TestErrors(t *testing.T) {
	cause := errors.New("cause")
	require.EqualError(t, &Error{Op: "op", Rank: -1, Err: cause}, "launch: op: cause")
	require.EqualError(t, &Error{Op: "op", Rank: 0, Err: cause}, "launch: op: rank 0: cause")
	require.EqualError(t, &Error{Op: "op", Rank: 3, Err: cause}, "launch: op: rank 3: cause")
	require.ErrorIs(t, &Error{Err: cause}, cause)
	require.EqualError(t, &Death{Rank: 2, How: "killed"}, "rank 2 has ended: killed")
	require.EqualError(t, &Abort{Rank: -1, Reason: "why"}, "the job is being ended: why")
	require.EqualError(t, &Abort{Rank: 0, Reason: "why"}, "the job is being ended because of rank 0: why")
	for err, is := range map[error]error{&Death{}: ErrEnded, &Abort{}: ErrAborted} {
		for _, target := range []error{ErrEnded, ErrAborted, ErrLeft} {
			require.Equal(t, is == target, errors.Is(err, target))
		}
	}
	for value, wrong := range map[string]string{"3": "", "0-3,8": "", "x": `WEFT_BOUND="x"; `, "1,": `WEFT_BOUND="1,"; `} {
		if err := env.Bound.Check(value); wrong == "" {
			require.NoError(t, err, value)
		} else {
			require.ErrorContains(t, err, wrong)
			require.ErrorContains(t, err, "is not a processor")
			require.ErrorContains(t, err, "Only a launcher should set it")
		}
	}
	for _, name := range []string{env.Rank.Name, env.Ranks.Name, env.Job.Name, env.Bound.Name} {
		require.True(t, Reserved(name))
		require.True(t, Reserved(strings.ToLower(name)), "as some systems have it")
		require.False(t, Reserved(name+"X"))
	}
	require.False(t, Reserved(env.Node.Name))
	for _, row := range []struct{ job, rank, want string }{{"", "", ""}, {"", "1", `WEFT_RANK="1" without WEFT_JOB; only a launcher should set them`}, {"/d", "", `WEFT_RANK=""; it is a number from 0 to 1, one less than WEFT_RANKS`}} {
		t.Setenv(env.Job.Name, row.job)
		t.Setenv(env.Rank.Name, row.rank)
		t.Setenv(env.Ranks.Name, "2")
		p, err := Detect()
		require.Nil(t, p)
		if row.want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, "launch: environment: bad environment: "+row.want)
		}
	}
	t.Setenv(env.Job.Name, "/d")
	t.Setenv(env.Rank.Name, "1")
	t.Setenv(env.Ranks.Name, "2")
	p, err := Detect()
	require.NoError(t, err)
	require.Equal(t, &Identity{1, 2, "/d"}, p)
}
