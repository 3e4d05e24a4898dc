// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/examples/heat/internal/conf"
	"weft/internal/soak"
)

// soakEnv makes a process of heat fail if its memory or other resources grow with its steps. Its
// value is the time between two samples.
const soakEnv = "HEAT_TEST_SOAK"

// steady is command for a process that is sampled, if soakEnv is set.
func steady(ctx context.Context, words []string) int {
	every, err := time.ParseDuration(os.Getenv(soakEnv))
	if err != nil {
		return command(ctx, words, os.Stdout, os.Stderr)
	}
	stop := soak.Every(every)
	status := command(ctx, words, os.Stdout, os.Stderr)
	if grown := stop().Growth(); grown != "" {
		fmt.Fprintf(os.Stderr, "rank %q grows: %s\n", os.Getenv("WEFT_RANK"), grown)
		return exitFailed
	}
	return status
}

// alone runs the program as a process, since runs within this process are recorded.
func alone(t *testing.T, env, line string) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), env, childEnv+"="+line)
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// The resources of heat do not grow with the number of steps: with ranks as goroutines and as
// processes, in each variant.
func TestSoakSteps(t *testing.T) {
	every := soakEnv + "=" + (time.Duration(soak.Long(2, 50)) * time.Millisecond).String()
	for _, variant := range conf.Variants {
		steps := soak.Long(4000, 100_000)
		if variant == conf.MPI {
			steps = max(steps, 16_000) // its steps are fast
		}
		line := fmt.Sprintf("-variant %s -r 96 -c 96 -R 32 -C 32 -wins 1 -timesteps %d -nam-freq 0 -no-warmup", variant, steps)
		t.Run(variant+"/goroutines", func(t *testing.T) {
			newTestDir(t)
			alone(t, every, line+" -ranks 3 -workers 2")
		})
		for _, fabric := range []string{"shm", "tcp"} {
			t.Run(variant+"/"+fabric, func(t *testing.T) {
				if soak.Long(0, 1) == 0 {
					// the last value of a flag is used
					line = fmt.Sprintf("%s -timesteps %d", line, steps/8)
				}
				newTestDir(t)
				status, _, stderr := launchedFor(t, 20*time.Minute, 2, []string{"WEFT_FABRIC=" + fabric, every}, line+" -workers 1")
				require.Zero(t, status, stderr)
			})
		}
	}
}

// A sequence of runs with snapshots leaves only the window of the last run in the store.
func TestSoakStore(t *testing.T) {
	newTestDir(t)
	runs := soak.Long(6, 100)
	var early, late int64
	for i := range runs {
		alone(t, soakEnv+"=", "-size 64 -bs 32 -ranks 2 -workers 2 -timesteps 20 -nam-freq 10 -no-warmup")
		if late = bytesUnder(t, os.Getenv("WEFT_NAM_DIR")); i == runs/2 {
			early = late
		}
	}
	require.LessOrEqual(t, late, early, "bytes of the store")
}

func bytesUnder(t *testing.T, dir string) (n int64) {
	require.NoError(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	}))
	return n
}
