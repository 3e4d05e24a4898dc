// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// function returns the text of a function or constant of the document. The text ends where the next
// function or constant begins.
func function(t *testing.T, begin string) string {
	_, rest, ok := strings.Cut(string(HTML), "\n"+begin)
	require.True(t, ok, begin)
	end := regexp.MustCompile(`\n(function|const|async|//)`).FindStringIndex(rest)
	require.NotNil(t, end)
	return begin + rest[:end[0]] + "\n"
}

// Numbers and times are written as people write them. The test needs a program that runs the
// document's script.
func TestNumbersOfThePage(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		call string
		want map[string]string
	}{
		{"short", map[string]string{"0": "0", "0.5": "0.5", "10": "10", "50": "50", "37.5": "37.5", "100": "100", "600": "600", "999.4": "999", "999.7": "1 k", "1000": "1 k", "123456": "123 k",
			"999700": "1 M", "2.5e6": "2.5 M", "1e9": "1 G"}},
		{"span", map[string]string{"0": "0 ns", "999": "999 ns", "1500": "1.50 µs", "999700": "1000 µs", "1e6": "1.00 ms", "9.999e8": "1000 ms", "1e9": "1.00 s", "59.4e9": "59.4 s", "59.6e9": "1 min 0 s",
			"119.7e9": "2 min 0 s", "3599.6e9": "1 h 0 min", "9000e9": "2 h 30 min"}},
	} {
		script := function(t, "const three") + function(t, "function short") + function(t, "function span") + "const out = {};\n"
		for in := range c.want {
			script += "out[\"" + in + "\"] = " + c.call + "(" + in + ");\n"
		}
		out, err := exec.Command(node, "-e", script+"console.log(JSON.stringify(out));").CombinedOutput()
		require.NoError(t, err, string(out))
		got := map[string]string{}
		require.NoError(t, json.Unmarshal(out, &got))
		require.Equal(t, c.want, got, c.call)
	}
}
