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

// A job has a directory, which holds the launcher's socket and the secret. The directory is named
// for the job and has mode 0700. Remove removes it at the end of the job, in whichever process.
const (
	dirPrefix     = "weft-job-"
	socketFile    = "socket"
	maxSocketPath = 100 // bytes; the systems allow 104 to 108
	// staleAge is the age from which a directory's launcher counts as dead if it does not answer.
	// The launcher of a younger directory may not listen yet. A guess, far above the time that
	// takes.
	staleAge = 10 * time.Second
)

// baseDirs lists the directories in which job directories may be, the best first.
func baseDirs() []string {
	var list []string
	for _, d := range []string{env.Get("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp"} {
		if filepath.IsAbs(d) {
			list = append(list, filepath.Clean(d))
		}
	}
	return list
}

// makeDir makes the directory of a job in the first of bases (nil: baseDirs()) where that is
// possible. It calls tell, if that is not nil, with each path before it tries to make a directory
// there: a process that removes the directory if this one is killed must know the path first.
func makeDir(bases []string, tell func(dir string)) (dir, id string, err error) {
	var b [8]byte
	_, _ = rand.Read(b[:])
	id = hex.EncodeToString(b[:])
	if bases == nil {
		bases = baseDirs()
	}
	var problems []error
	for _, base := range bases {
		dir := filepath.Join(base, dirPrefix+id)
		if len(filepath.Join(dir, socketFile)) > maxSocketPath {
			problems = append(problems, fmt.Errorf("%s: too long a path for a socket", base))
			continue
		}
		if tell != nil {
			tell(dir)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			problems = append(problems, err)
			continue
		}
		// The umask may have removed bits of the mode.
		if err := os.Chmod(dir, 0o700); err != nil {
			return "", "", err
		}
		return dir, id, nil
	}
	return "", "", fmt.Errorf("the directory of a job cannot be made: %w", errors.Join(problems...))
}

// jobID returns the job's name from the path of its directory; "" if that is not the path of one.
func jobID(dir string) string {
	id, ok := strings.CutPrefix(filepath.Base(dir), dirPrefix)
	if b, err := hex.DecodeString(id); !ok || err != nil || len(b) != 8 {
		return ""
	}
	return id
}

// Remove removes the files of a job. A process that notices that the launcher is gone calls it. It
// may be called several times, and by several processes at once.
func Remove(dir string) error {
	id := jobID(dir)
	if id == "" || !filepath.IsAbs(dir) {
		return &Error{Op: "remove", Rank: -1, Err: fmt.Errorf("%q is not the directory of a job", dir)}
	}
	return os.RemoveAll(dir)
}

// Sweep removes the files of dead jobs that no process has removed.
func Sweep() { sweep(baseDirs()) }

func sweep(bases []string) {
	for _, base := range bases {
		dirs, _ := filepath.Glob(filepath.Join(base, dirPrefix+"*"))
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

// launcherDead reports whether no process listens at the job's socket.
func launcherDead(dir string) bool {
	c, err := net.DialTimeout("unix", filepath.Join(dir, socketFile), time.Second)
	if err == nil {
		_ = c.Close()
		return false
	}
	return errors.Is(err, fs.ErrNotExist) || refused(err)
}
