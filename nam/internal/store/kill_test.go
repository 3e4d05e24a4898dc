// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/leaktest"
)

// The test binary runs itself as the process that is killed.
const (
	envDir  = "WEFT_TEST_STORE_DIR"
	envRole = "WEFT_TEST_STORE_ROLE"
	// NAME#N: die at the N-th time of this step; "?" only prints the steps
	envStep = "WEFT_TEST_STORE_STEP"
)

func TestMain(m *testing.M) {
	role, ok := os.LookupEnv(envRole)
	if !ok {
		os.Exit(leaktest.Main(m))
	}
	dir := os.Getenv(envDir)
	var err error
	switch role {
	case "lifecycle":
		err = childLifecycle(dir)
	case "recover":
		_, err = Open(dir, Config{Step: childStep()})
	case "restore":
		err = childRestore(dir)
	case "repair":
		_, err = Repair(dir, Config{Boot: testBoot, Step: childStep()})
	case "writer":
		err = childWriter(dir)
	default:
		err = fmt.Errorf("role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// memDir returns a directory in memory, if there is such a file system. A killed process leaves the
// same there. These tests make hundreds of stores; on a disk, their syncs would take most of the
// time.
func memDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "weft-store-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func killSelf() {
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func childStep() func(string) {
	at := os.Getenv(envStep)
	seen := map[string]int{}
	return func(name string) {
		seen[name]++
		step := fmt.Sprintf("%s#%d", name, seen[name])
		if at == "?" {
			fmt.Println(step)
		}
		if step == at {
			killSelf()
		}
	}
}

// childLifecycle passes every step of every protocol.
func childLifecycle(dir string) error {
	s, err := Open(dir, Config{Step: childStep()})
	if err != nil {
		return err
	}
	keep, err := makeWindow(s, Request{Name: "keep", Files: []uint64{headerSize, headerSize},
		Regions: []Region{{Size: headerSize, Unit: 1}, {Size: headerSize, Unit: 1, File: 1}}})
	if err != nil {
		return err
	}
	copy(keep.Region(1), "kept")
	mustRaise(keep, 1)
	req := oneRegion("vol", 100)
	req.Volatile = true
	vol, err := makeWindow(s, req)
	if err != nil {
		return err
	}
	gone, err := makeWindow(s, oneRegion("gone", 100))
	if err != nil {
		return err
	}
	c, err := s.Create(oneRegion("failed", 100))
	if err != nil {
		return err
	}
	return errors.Join(
		c.Abort(),
		s.SetVolatile(vol.Entry().ID, false), s.SetVolatile(vol.Entry().ID, true),
		vol.Release(),
		s.Remove("gone"), gone.Release(),
		keep.Release(), s.Close())
}

// childRestore restores what is set aside, one window under another name, and drops one.
func childRestore(dir string) error {
	s, err := Open(dir, Config{Boot: testBoot, Step: childStep()})
	if err != nil {
		return err
	}
	all, err := s.SetAside()
	if err != nil {
		return err
	}
	for _, a := range all {
		switch a.Entry.Name {
		case "raw0":
			err = s.Drop("raw0")
		case "many": // with a longer name the entry is written again, after the data
			_, err = s.Restore("many", "many-and-more")
		default:
			_, err = s.Restore(a.Entry.Name, "")
		}
		if err != nil {
			return err
		}
	}
	return s.Close()
}

func childCommand(t *testing.T, role, dir, step string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"="+role, envDir+"="+dir, envStep+"="+step)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	return cmd, &errOut
}

func steps(t *testing.T, role, dir string) []string {
	cmd, errOut := childCommand(t, role, dir, "?")
	out, err := cmd.Output()
	require.NoError(t, err, errOut.String())
	return strings.Fields(string(out))
}

func requireKilled(t *testing.T, role, dir, step string) {
	t.Helper()
	cmd, errOut := childCommand(t, role, dir, step)
	err := cmd.Run()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s: it did not die; %s", step, errOut.String())
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal(), "%s: %s", step, errOut.String())
}

// A process dies at each step in turn. Afterwards the store opens, nothing incomplete is left,
// complete windows are intact, and every name can be used again.
func TestKillAtEveryStep(t *testing.T) {
	all := steps(t, "lifecycle", memDir(t))
	require.Greater(t, len(all), 30)
	for _, want := range []string{"init:made#1", "init:filled#1", "create:file#1", "create:filed#1", "create:reserved#1", "header:written#1", "header:synced#1",
		"create:synced#1", "create:committing#1", "create:ready#1", "delete:marked#1", "delete:flagged#1", "delete:unlinked#1",
		"delete:forgetting#1", "reclaim:marked#1", "setinfo:flagged#1", "setinfo:committed#1", "settle:synced#1", "settle:marked#1"} {
		require.Contains(t, all, want)
	}
	for _, step := range all {
		dir := memDir(t)
		requireKilled(t, "lifecycle", dir, step)
		s, err := Open(dir, Config{})
		require.NoError(t, err, step)
		requireSound(t, s)
		if h, err := s.Attach("keep", false, false); err == nil {
			if epochsOf(h) == 1 {
				require.Equal(t, "kept", string(h.Region(1)[:4]), step)
			}
			require.NoError(t, h.Release())
			require.NoError(t, s.Remove("keep"))
		} else {
			require.ErrorIs(t, err, ErrName, step)
			require.True(t, strings.HasPrefix(step, "init:") || strings.HasPrefix(step, "create:") || strings.HasPrefix(step, "header:"), "%s lost a complete window", step)
		}
		for name, where := range map[string]string{"gone": "", "vol": "setinfo:"} {
			if _, err := s.Stat(name); err == nil {
				// it died before the removal, or while it was persistent
				require.True(t, strings.HasPrefix(step, where), "%s left %q", step, name)
				require.NoError(t, s.Remove(name), step)
			}
		}
		for _, name := range []string{"keep", "vol", "gone", "failed"} {
			h, err := makeWindow(s, oneRegion(name, 10))
			require.NoError(t, err, "%s: %s", step, name)
			require.NoError(t, h.Release())
		}
		requireSound(t, s)
		require.NoError(t, s.Close())
	}
}

// The process that cleans up may die as well, at each of its steps.
func TestKillDuringRecovery(t *testing.T) {
	copyOf := func(dir string) string {
		c := memDir(t)
		require.NoError(t, os.CopyFS(c, os.DirFS(dir)))
		return c
	}
	for _, first := range []string{"create:file#2", "create:filed#1", "create:filed#2", "create:committed#1", "create:ready#2", "delete:marked#1", "delete:flagged#1"} {
		dir := memDir(t)
		requireKilled(t, "lifecycle", dir, first)
		todo := steps(t, "recover", copyOf(dir))
		require.NotEmpty(t, todo, "%s leaves nothing to recover", first)
		for _, second := range todo {
			dir := copyOf(dir)
			requireKilled(t, "recover", dir, second)
			s, err := Open(dir, Config{})
			require.NoError(t, err, "%s, then %s", first, second)
			requireSound(t, s)
			require.NoError(t, s.Close())
		}
	}
}

const (
	slotBytes = 64 << 10
	slots     = 256
)

// childWriter fills slot after slot of a window and counts each as an epoch, and makes and removes
// windows meanwhile.
func childWriter(dir string) error {
	s, err := Open(dir, Config{})
	if err != nil {
		return err
	}
	h, err := makeWindow(s, oneRegion("epochs", slots*slotBytes))
	if err != nil {
		return err
	}
	go func() {
		for i := 0; ; i++ {
			req := oneRegion("churn"+strconv.Itoa(i%3), 1<<20)
			req.Volatile = i%2 == 0
			w, err := makeWindow(s, req)
			if err == nil {
				err = errors.Join(s.Remove(req.Name), w.Release())
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
	}()
	fmt.Println("ready")
	m := h.Region(0)
	for k := uint64(0); ; k++ {
		slot := m[k%slots*slotBytes:][:slotBytes]
		for i := 0; i < slotBytes; i += 8 {
			binary.NativeEndian.PutUint64(slot[i:], k+1)
		}
		mustRaise(h, k+1)
	}
}

func TestKillAtRandomMoments(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 8 {
		dir := memDir(t)
		cmd, errOut := childCommand(t, "writer", dir, "")
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ready\n", line)
		// the moment of death is the input of this test
		time.Sleep(time.Duration(rng.IntN(30_000)) * time.Microsecond)
		require.NoError(t, cmd.Process.Kill())
		cmd.Wait()
		require.Empty(t, errOut.String())

		s, err := Open(dir, Config{})
		require.NoError(t, err)
		requireSound(t, s)
		h, err := s.Attach("epochs", true, false)
		require.NoError(t, err)
		n := epochsOf(h)
		m := h.Region(0)
		// The slot of the epoch that was being written is anything; the complete ones before it are
		// whole.
		for k := n - min(n, slots-1); k < n; k++ {
			slot := m[k%slots*slotBytes:][:slotBytes]
			for i := 0; i < slotBytes; i += 8 {
				if got := binary.NativeEndian.Uint64(slot[i:]); got != k+1 {
					// plain: there are millions
					t.Fatalf("epoch %d of %d, byte %d: %d", k, n, i, got)
				}
			}
		}
		require.NoError(t, h.Release())
		require.NoError(t, s.Close())
	}
}
