// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/env"
	"weft/internal/launch/bind"
)

// Ranks run on the processors that the launcher assigns, and learn which they are. The launcher
// itself is not bound.
func TestRunBinds(t *testing.T) {
	if !bind.Supported {
		require.Contains(t, self(t, "", "run", "-bind", "core", "true").errOut, bind.ErrUnsupported.Error())
		return
	}
	all, err := bind.Allowed()
	require.NoError(t, err)
	script := `echo "$WEFT_RANK/$WEFT_BOUND/$(grep Cpus_allowed_list /proc/self/status | cut -f 2)"`
	ranks := func(args ...string) (lines []string, r result) {
		r = self(t, "", append(append([]string{"run"}, args...), "sh", "-c", script)...)
		require.Zero(t, r.status, r.errOut)
		return strings.Split(strings.TrimSpace(r.out), "\n"), r
	}
	first, last := fmt.Sprint(all[0]), fmt.Sprint(all[len(all)-1])

	lines, r := ranks("-v", "-n", "2", "-bind", last+","+first)
	require.ElementsMatch(t, []string{"0/" + last + "/" + last, "1/" + first + "/" + first}, lines)
	require.Contains(t, r.errOut, "weft run: rank 0 is bound to processors "+last+"\n")
	lines, _ = ranks("-n", "1", "-bind", "none")
	require.Equal(t, []string{"0//" + all.String()}, lines)

	// One rank too many, and WEFT_BIND instead of the option.
	n := fmt.Sprint(len(all) + 1)
	lines, r = ranks("-v", "-n", n)
	require.Len(t, lines, len(all)+1)
	require.Contains(t, lines, "0//"+all.String())
	require.Contains(t, r.errOut, "ranks are not bound to processors")
	t.Setenv(env.Bind.Name, first)
	lines, _ = ranks("-n", "1")
	require.Equal(t, []string{"0/" + first + "/" + first}, lines)
	lines, _ = ranks("-bind", "none", "-n", "1")
	require.Equal(t, []string{"0//" + all.String()}, lines)

	r = self(t, "", "run", "-bind", "core", "-n", n, "true")
	require.Equal(t, exitUsage, r.status)
	require.Contains(t, r.errOut, "ranks cannot be bound: "+n+" ranks, and ")
	t.Setenv(env.Bind.Name, "cores")
	r = self(t, "", "run", "true")
	require.Equal(t, exitUsage, r.status)
	require.Contains(t, r.errOut, `environment variable WEFT_BIND="cores"; legal are auto, none, core, or sets`)
	r = weft("info")
	require.Equal(t, exitFailure, r.status)
	require.Contains(t, r.errOut, `WEFT_BIND="cores"; legal are auto`)
}
