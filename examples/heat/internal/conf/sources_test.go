// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/examples/heat/internal/grid"
)

func TestParseSources(t *testing.T) {
	got, err := ParseSources("x", strings.NewReader("# plate\n2\n0.0 0.0 1.0 2.5\n\n 1.0\t0.5 1.0 -2.5 # cold\n"))
	require.NoError(t, err)
	require.Equal(t, []grid.Source{{Range: 1, Temperature: 2.5}, {Row: 1, Col: 0.5, Range: 1, Temperature: -2.5}}, got)
}

// Every error names the line and what is legal.
func TestParseSourcesErrors(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "heat.conf:0: the file is empty",
		"\n\n":                    "heat.conf:2: the file is empty",
		"two\n":                   `heat.conf:1: the number of sources is "two", legal is one whole number from 1`,
		"0\n":                     `heat.conf:1: the number of sources is "0", legal`,
		"-1\n":                    `heat.conf:1: the number of sources is "-1", legal`,
		"1 2\n":                   `heat.conf:1: the number of sources is "1 2", legal`,
		"99999999999999999999\n":  "heat.conf:1: the number of sources",
		"2\n0 0 1 1\n":            "heat.conf:2: the file ends after 1 of 2 sources",
		"1\n0 0 1 1\n\n0 0 1 1\n": "heat.conf:4: one line more than the 1 sources announced",
		"1\n0 0 1\n":              "heat.conf:2: a source has 4 numbers, this line has 3",
		"1\n0 0 1 1 1\n":          "heat.conf:2: a source has 4 numbers, this line has 5",
		"1\n0 x 1 1\n":            `heat.conf:2: col is "x", legal is a finite number`,
		"1\n0 0 1 NaN\n":          `heat.conf:2: temperature is "NaN", legal is a finite number`,
		"1\n1.5 0 1 1\n":          "heat.conf:2: row is 1.5, legal is 0 to 1",
		"1\n0 -1 1 1\n":           "heat.conf:2: col is -1, legal is 0 to 1",
		"1\n0 0 0 1\n":            "heat.conf:2: range is 0, legal is above 0",
	} {
		_, err := ParseSources("heat.conf", strings.NewReader(in))
		require.ErrorContains(t, err, want, "%q", in)
		require.ErrorContains(t, err, sourcesSyntax, "%q", in)
	}
}

func TestLoadSources(t *testing.T) {
	t.Chdir(t.TempDir())
	got, err := LoadSources("")
	require.NoError(t, err)
	require.Equal(t, DefaultSources, got)

	require.NoError(t, os.WriteFile(DefaultSourcesFile, []byte("1\n0 1 0.5 9\n"), 0o600))
	got, err = LoadSources("")
	require.NoError(t, err)
	require.Equal(t, []grid.Source{{Col: 1, Range: 0.5, Temperature: 9}}, got)

	_, err = LoadSources(filepath.Join("no", "such"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "sources file: ")
}
