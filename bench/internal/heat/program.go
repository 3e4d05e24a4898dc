// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package heat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"weft/bench/internal/harness"
)

// Program builds the heat program, once and when it is first needed, and removes it on Close.
type Program struct {
	// Profile, while it is not nil, receives the file of the CPU profile of each run.
	Profile func(file string)

	dir  string // temporary directory: the binary and the files of runs
	path string
	err  error
}

// Close removes the program and everything that its runs wrote.
func (p *Program) Close() error {
	if p.dir == "" {
		return nil
	}
	return os.RemoveAll(p.dir)
}

func (p *Program) build(ctx context.Context) error {
	if p.path != "" || p.err != nil {
		return p.err
	}
	if p.dir, p.err = os.MkdirTemp("", "weft-bench-"); p.err != nil {
		return p.err
	}
	path := filepath.Join(p.dir, "heat")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "weft/examples/heat").CombinedOutput(); err != nil {
		p.err = fmt.Errorf("go build weft/examples/heat: %w: %s", err, bytes.TrimSpace(out))
		return p.err
	}
	p.path = path
	return nil
}

// run runs the program with the given arguments and returns its rate. The program checks its
// result, except in a profiled run, where the check would be most of the profile. The sample before
// a profiled run makes the check.
func (p *Program) run(ctx context.Context, workers int, args []string) (float64, error) {
	var profile string
	if p.Profile != nil {
		profile = filepath.Join(p.dir, "cpu.prof")
		args = append(args, "-cpuprofile", profile)
	} else {
		args = append(args, "-check")
	}
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(workers))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	runErr := cmd.Run()
	rate, err := parseRate(stdout.String())
	if runErr != nil {
		why := lastLine(stderr.String() + "\n" + stdout.String())
		// Status 1 with a rate means that the program's check failed.
		if exit := (*exec.ExitError)(nil); errors.As(runErr, &exit) && exit.ExitCode() == 1 && err == nil {
			return rate, harness.Wrong("heat %s: %s", strings.Join(args, " "), why)
		}
		return 0, fmt.Errorf("heat %s: %w: %s", strings.Join(args, " "), runErr, why)
	}
	if err != nil {
		return 0, fmt.Errorf("heat %s: %w", strings.Join(args, " "), err)
	}
	if profile != "" {
		p.Profile(profile)
	}
	return rate, nil
}

// parseRate finds the program's one line of results ("rows, 2048, cols, …, Mupdates/s, 2711.3") and
// returns its rate.
func parseRate(out string) (float64, error) {
	for line := range strings.Lines(out) {
		fields := strings.Split(line, ",")
		if strings.TrimSpace(fields[0]) != "rows" {
			continue
		}
		for i := 0; i+1 < len(fields); i += 2 {
			if strings.EqualFold(strings.TrimSpace(fields[i]), "Mupdates/s") {
				v, err := strconv.ParseFloat(strings.TrimSpace(fields[i+1]), 64)
				if err != nil || !(v > 0) {
					return 0, fmt.Errorf("the rate in %q is not a positive number", strings.TrimSpace(line))
				}
				return v, nil
			}
		}
	}
	return 0, errors.New("no line of results in its output")
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
