// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that uses only tasks reports once which variables in its environment are unknown.
func TestUnknownVariables(t *testing.T) {
	const asProgram = "WEFT_TEST_TASK"
	if os.Getenv(asProgram) != "" {
		for range 2 {
			rt, err := Open(Config{})
			require.NoError(t, err)
			require.NoError(t, rt.Close())
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestUnknownVariables$")
	cmd.Env = append(os.Environ(), asProgram+"=1", "WEFT_WORKER=2", "WEFT_RANK=", EnvLint+"=0")
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	require.NoError(t, err, string(out))
	require.Equal(t, "weft: environment variable WEFT_WORKER: no such variable; did you mean WEFT_WORKERS?\n", errOut.String())
}
