// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/nam"
)

// Another user reads and writes windows as far as their modes allow, whatever the files would
// allow, and never removes or changes them. An owner that is not root is bound by its own modes.
func TestAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	top := nam.DirForOthers(t)
	dir := filepath.Join(top, "s")
	s, err := nam.Open(dir, nam.Config{})
	require.NoError(t, err)
	run(t, 1, func(c *comm.Comm) error {
		for _, mode := range otherUserModes {
			w, err := s.Allocate(c, 8, 8, mode, nam.Persistent, nam.Name(fmt.Sprintf("m%o", mode)))
			if err != nil {
				return err
			}
			if err := w.Free(); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, filepath.Walk(dir, func(path string, st os.FileInfo, err error) error {
		mode := os.FileMode(0o666) // the database entries decide
		if st.IsDir() {
			mode = 0o777
		}
		return os.Chmod(path, mode)
	}))

	// Another user cannot read the test binary's directory.
	program := filepath.Join(top, "program")
	from, err := os.Open(os.Args[0])
	require.NoError(t, err)
	defer from.Close()
	to, err := os.OpenFile(program, os.O_WRONLY|os.O_CREATE, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(to, from)
	require.NoError(t, err)
	require.NoError(t, to.Close())
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Dir = top
	cmd.Env = append(os.Environ(), envRole+"=otheruser", envDir+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	all, err := s.List()
	require.NoError(t, err)
	require.Len(t, all, len(otherUserModes))
	require.NoError(t, s.Close())
}
