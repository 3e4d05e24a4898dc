// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weft/internal/env"
)

// A job has a directory, which holds the launcher's socket and the secret. It is named for the job,
// has mode 0700, and goes with the job: Remove removes it, whoever calls it.
const (
	dirPrefix     = "weft-job-"
	socketFile    = "socket"
	maxSocketPath = 100 // bytes; the systems allow 104 to 108
	// staleAge is how old a directory at least is whose launcher may be taken for dead when it does
	// not answer. A younger one may be on its way to listen. A guess, far above what that takes.
	staleAge = 10 * time.Second
)

// homes lists where job directories may be, the best first.
func homes() []string {
	var list []string
	for _, d := range []string{env.Get("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp"} {
		if filepath.IsAbs(d) {
			list = append(list, filepath.Clean(d))
		}
	}
	return list
}

// makeDir makes the directory of a job in the first of places, nil: homes(), where that is
// possible. It calls tell, if that is not nil, with each path before it tries to make a directory
// there: whoever is to remove it if this process is killed has to know it first.
func makeDir(places []string, tell func(dir string)) (dir, id string, err error) {
	var b [8]byte
	_, _ = rand.Read(b[:])
	id = hex.EncodeToString(b[:])
	if places == nil {
		places = homes()
	}
	var problems []error
	for _, p := range places {
		dir := filepath.Join(p, dirPrefix+id)
		if len(filepath.Join(dir, socketFile)) > maxSocketPath {
			problems = append(problems, fmt.Errorf("%s: too long a path for a socket", p))
			continue
		}
		if tell != nil {
			tell(dir)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			problems = append(problems, err)
			continue
		}
		// The umask may have taken from the mode, and must not.
		if err := os.Chmod(dir, 0o700); err != nil {
			return "", "", err
		}
		return dir, id, nil
	}
	return "", "", fmt.Errorf("no place for the directory of a job: %w", errors.Join(problems...))
}

// jobID returns the job's name from the path of its directory; "" if that is not the path of one.
func jobID(dir string) string {
	id, ok := strings.CutPrefix(filepath.Base(dir), dirPrefix)
	if b, err := hex.DecodeString(id); !ok || err != nil || len(b) != 8 {
		return ""
	}
	return id
}

// Remove removes all that a job has in the file system. Whoever notices that the launcher is gone
// calls it; it may be called several times, and by several processes at once.
func Remove(dir string) error {
	id := jobID(dir)
	if id == "" || !filepath.IsAbs(dir) {
		return &Error{Op: "remove", Rank: -1, Err: fmt.Errorf("%q is not the directory of a job", dir)}
	}
	return os.RemoveAll(dir)
}

// Sweep removes what dead jobs have left behind: those that nobody was left to clean up after.
func Sweep() { sweep(homes()) }

func sweep(places []string) {
	for _, p := range places {
		dirs, _ := filepath.Glob(filepath.Join(p, dirPrefix+"*"))
		for _, d := range dirs {
			if jobID(d) != "" && isStale(d) {
				_ = Remove(d) // the next launcher tries again
			}
		}
	}
}

func isStale(dir string) bool {
	st, err := os.Lstat(dir)
	return err == nil && st.IsDir() && private(st) && time.Since(st.ModTime()) > staleAge && launcherDead(dir)
}

// launcherDead reports whether nobody listens at the job's socket.
func launcherDead(dir string) bool {
	c, err := net.DialTimeout("unix", filepath.Join(dir, socketFile), time.Second)
	if err == nil {
		_ = c.Close()
		return false
	}
	return errors.Is(err, fs.ErrNotExist) || refused(err)
}
