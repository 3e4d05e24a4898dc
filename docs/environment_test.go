// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/nam"
	"weft/rma"
)

// The keys that windows report are those that docs/environment.md lists, section by section.
func TestReportedInfoKeysAreListed(t *testing.T) {
	store, err := nam.Open(t.TempDir(), nam.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: 1}, func(c *comm.Comm) error {
		process, _, err := rma.Allocate[int](c, 1)
		if err != nil {
			return err
		}
		network, err := store.Allocate(c, 8, 8)
		if err != nil {
			return err
		}
		hints := listedKeys(t, "## Info keys of windows")
		require.ElementsMatch(t, hints, process.Info().Keys())

		listed := append(listedKeys(t, "## Info keys of network-attached memory"), hints...)
		for _, key := range network.Info().Keys() {
			require.Contains(t, listed, key)
		}
		require.NoError(t, network.Free())
		return process.Free()
	}))
}

// listedKeys returns the first column of the table in a section of docs/environment.md.
func listedKeys(t *testing.T, section string) []string {
	t.Helper()
	text, err := os.ReadFile("environment.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "\n"+section+"\n")
	require.True(t, found)
	rest, _, _ = strings.Cut(rest, "\n## ")
	var keys []string
	for line := range strings.Lines(rest) {
		if cell, ok := strings.CutPrefix(line, "| `"); ok {
			key, _, _ := strings.Cut(cell, "`")
			keys = append(keys, key)
		}
	}
	require.NotEmpty(t, keys)
	return keys
}
