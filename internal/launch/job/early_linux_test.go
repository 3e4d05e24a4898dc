// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A launcher that is killed or asked to end at any time, also in its first milliseconds, leaves no
// directory, no janitor and no rank.
func TestLauncherIsEndedEarly(t *testing.T) {
	spec, err := json.Marshal(launcherSpec{Janitor: true, Grace: time.Minute, Parts: []Part{shell(2, "exec sleep 1000")}})
	require.NoError(t, err)
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		dir := isolate(t)
		n := 16
		if testing.Short() {
			n = 8
		}
		var jobs []string
		for i := range n {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), roleVariable+"=launcher", specVariable+"="+string(spec))
			require.NoError(t, cmd.Start())
			// The existence of the directory shows the launcher's progress; from then on each step
			// takes some tens of microseconds.
			for start := time.Now(); i%4 != 0 && time.Since(start) < 10*time.Second; {
				if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
					jobs = append(jobs, filepath.Base(left[0]))
					break
				}
			}
			if i%4 < 2 {
				time.Sleep(time.Duration(i) * 300 * time.Microsecond)
			} else {
				time.Sleep(time.Duration(i*i) * 5 * time.Microsecond)
			}
			require.NoError(t, cmd.Process.Signal(sig))
			_ = cmd.Wait()
			require.Eventually(t, func() bool { return len(marked(dir)) == 0 }, time.Minute, time.Millisecond, "%v", marked(dir))
			requireClean(t, dir)
		}
		require.NotEmpty(t, jobs)
		for _, j := range jobs {
			require.NoDirExists(t, filepath.Join("/dev/shm", j))
		}
	}
}

// A launcher that is killed while it makes the file of a secret leaves no temporary file.
func TestLauncherIsEndedWhileItMakesASecret(t *testing.T) {
	j, err := startJanitor()
	require.NoError(t, err)
	temp := filepath.Join(t.TempDir(), "a \"temporary\"\nfile")
	j.discard(temp)
	require.NoError(t, os.WriteFile(temp, nil, 0o600))
	require.NoError(t, j.pipe.Close()) // as the kernel does
	_, err = j.proc.Wait()
	require.NoError(t, err)
	require.NoFileExists(t, temp)
}

// marked lists the other processes with this directory for jobs in their environment.
func marked(dir string) (found []string) {
	list, _ := os.ReadDir("/proc")
	for _, d := range list {
		env, err := os.ReadFile("/proc/" + d.Name() + "/environ")
		if err == nil && d.Name() != fmt.Sprint(os.Getpid()) && d.Name() != "self" && d.Name() != "thread-self" && bytes.Contains(env, []byte("XDG_RUNTIME_DIR="+dir+"\x00")) {
			cmd, _ := os.ReadFile("/proc/" + d.Name() + "/cmdline")
			found = append(found, d.Name()+" "+string(bytes.ReplaceAll(cmd, []byte{0}, []byte{' '})))
		}
	}
	return found
}
