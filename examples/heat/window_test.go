// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/nam"
)

// makeWindow creates a persistent window.
func makeWindow(t *testing.T, s *nam.Store, name string) {
	t.Helper()
	require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: 1}, func(c *comm.Comm) error {
		w, err := s.Allocate(c, 8, 1, nam.Persistent, nam.Name(name))
		if err != nil {
			return err
		}
		return w.Free()
	}))
}

func windowNames(t *testing.T, s *nam.Store) []string {
	t.Helper()
	list, err := s.List()
	require.NoError(t, err)
	var names []string
	for _, a := range list {
		names = append(names, a.Name)
	}
	return names
}

// An unnamed run removes the windows of unnamed runs that have ended, and nothing else.
func TestUnnamedRunsDoNotFillTheStore(t *testing.T) {
	s, err := nam.Open(t.TempDir(), nam.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()

	// A process that has certainly ended.
	cmd := exec.Command(os.Args[0], "-test.run=NONE")
	require.NoError(t, cmd.Run())
	own := unnamedPrefix()
	keep := []string{
		"mine",
		fmt.Sprintf("%s%d-1", own, os.Getpid()),
		fmt.Sprintf("%s%d-1", own, os.Getppid()),
		fmt.Sprintf("heat-another.host-%d-1", cmd.Process.Pid),
		own + "x-1",
		fmt.Sprintf("%s%d", own, cmd.Process.Pid),
	}
	for _, name := range keep {
		makeWindow(t, s, name)
	}
	makeWindow(t, s, fmt.Sprintf("%s%d-1", own, cmd.Process.Pid))
	makeWindow(t, s, fmt.Sprintf("%s%d-2", own, cmd.Process.Pid))

	name, err := chooseWindow(s, "")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%s%d-2", own, os.Getpid()), name)
	require.ElementsMatch(t, keep, windowNames(t, s))

	_, err = chooseWindow(s, "mine")
	require.ErrorContains(t, err, `window "mine" exists in `)
	require.ErrorContains(t, err, "choose another -window, or remove it: go run ./cmd/weft nam rm ")
	name, err = chooseWindow(s, "other")
	require.NoError(t, err)
	require.Equal(t, "other", name)
}

// Suggested commands are quoted correctly for a shell.
func TestWordsForAShell(t *testing.T) {
	for _, s := range []string{"mine", "/tmp/store", "a b", "it's", "$HOME", "a;b", "ü", "*", `\`, "-x", "heat-host-12-1"} {
		out, err := exec.Command("sh", "-c", "printf '%s\n' "+word(s)).Output()
		require.NoError(t, err, s)
		require.Equal(t, s, strings.TrimSpace(strings.TrimPrefix(string(out), "--\n")), s)
	}
	require.Equal(t, "mine", word("mine"))
	require.Equal(t, "-- -x", word("-x"))
}
