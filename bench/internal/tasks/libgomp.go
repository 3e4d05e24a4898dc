// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"weft/bench/internal/harness"
)

// Libgomp builds the OpenMP program, once and when it is first needed, and removes it on Close.
type Libgomp struct {
	source string // C text

	dir  string // temporary directory with the built program
	prog string
	err  error // why it could not be built; wraps harness.ErrSkipped where the tools are missing
}

// NewLibgomp returns a Libgomp for the given C source.
func NewLibgomp(source string) *Libgomp { return &Libgomp{source: source} }

// Close removes what was built.
func (g *Libgomp) Close() error {
	if g.dir == "" {
		return nil
	}
	return os.RemoveAll(g.dir)
}

// program returns the path of the built program.
func (g *Libgomp) program(ctx context.Context) (string, error) {
	if g.prog == "" && g.err == nil {
		g.prog, g.err = g.build(ctx)
	}
	return g.prog, g.err
}

func (g *Libgomp) build(ctx context.Context) (string, error) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return "", harness.Skip("no gcc in PATH: install gcc (with OpenMP) to compare with libgomp")
	}
	if g.dir, err = os.MkdirTemp("", "weft-bench-"); err != nil {
		return "", err
	}
	// A program of two lines tells a missing OpenMP from a mistake in ours.
	probe := filepath.Join(g.dir, "probe.c")
	if err := os.WriteFile(probe, []byte("#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"), 0o600); err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, gcc, "-fopenmp", "-o", filepath.Join(g.dir, "probe"), probe).CombinedOutput(); err != nil {
		return "", harness.Skip("%s cannot build OpenMP programs: %v: %s", gcc, err, firstLine(out))
	}
	src, prog := filepath.Join(g.dir, "libgomp.c"), filepath.Join(g.dir, "libgomp")
	if err := os.WriteFile(src, []byte(g.source), 0o600); err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, gcc, "-O2", "-fopenmp", "-o", prog, src).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s -O2 -fopenmp libgomp.c: %w: %s", gcc, err, firstLine(out))
	}
	return prog, nil
}

func firstLine(out []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}

// slowReaders is the most tasks of task/readers that libgomp is given on one thread, where it looks through the readers that
// came before: 50,000 tasks take half a second, 200,000 seven seconds (measured, gcc 12).
const slowReaders = 100_000

// peer returns the libgomp peer of the named workload.
func (g *Libgomp) peer(workload string) harness.Peer {
	open := func(ctx context.Context, p harness.Params) (harness.Probe, error) {
		if workload == "task/readers" && p.Workers == 1 && p.Size > slowReaders {
			return harness.Probe{}, harness.Skip("with one thread its time for %s grows with the square of the tasks: minutes for %d", workload, p.Size)
		}
		prog, err := g.program(ctx)
		if err != nil {
			return harness.Probe{}, err
		}
		cmd := exec.CommandContext(ctx, prog, workload, strconv.FormatInt(p.Size, 10), strconv.Itoa(p.Workers),
			strconv.FormatFloat(p.MinTime.Seconds()*1e3, 'f', 3, 64))
		cmd.Stderr = os.Stderr
		ask, err := cmd.StdinPipe()
		if err != nil {
			return harness.Probe{}, err
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			return harness.Probe{}, err
		}
		if err := cmd.Start(); err != nil {
			return harness.Probe{}, err
		}
		answers := bufio.NewReader(stdout)
		return harness.Probe{
			Sample: func(context.Context) (float64, error) {
				if _, err := io.WriteString(ask, "sample\n"); err != nil {
					return 0, fmt.Errorf("libgomp: %w", err)
				}
				line, err := answers.ReadString('\n')
				if err != nil {
					return 0, fmt.Errorf("libgomp ended without an answer: %w", err)
				}
				return parseLibgomp(line)
			},
			Close: func() error { // the program ends when its input does
				return errors.Join(ask.Close(), cmd.Wait())
			},
		}, nil
	}
	return harness.Peer{Name: "libgomp", Extra: true, Open: open}
}

// parseLibgomp reads "81.5 ok" or "81.5 wrong what was wrong".
func parseLibgomp(line string) (float64, error) {
	figure, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	verdict, what, _ := strings.Cut(rest, " ")
	v, err := strconv.ParseFloat(figure, 64)
	switch {
	case err != nil || verdict != "ok" && verdict != "wrong":
		return 0, fmt.Errorf("libgomp said %q, not a figure followed by ok or wrong", line)
	case verdict == "wrong":
		return v, harness.Wrong("%s", what)
	}
	return v, nil
}
