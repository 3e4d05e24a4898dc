// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"weft/bench/internal/harness"
)

// A Kit builds programs, each once and when it is first needed, and removes them on Close.
type Kit struct {
	sources fs.FS

	// temporary directory of the sources and the programs; empty until the first build
	dir      string
	usable   map[*Toolchain]error
	programs map[string]built
}

// built is a program, or the reason why there is none.
type built struct {
	path string
	err  error
}

// NewKit returns a Kit for the sources at the top of a file system.
func NewKit(sources fs.FS) *Kit {
	return &Kit{sources: sources, usable: map[*Toolchain]error{}, programs: map[string]built{}}
}

// Close removes the programs.
func (k *Kit) Close() error {
	if k.dir == "" {
		return nil
	}
	return os.RemoveAll(k.dir)
}

// Start builds a program when it is first needed, and starts it. The error wraps harness.ErrSkipped
// if the tool chain is missing.
func (k *Kit) Start(ctx context.Context, tc *Toolchain, program string, args ...string) (*Process, error) {
	path, err := k.build(ctx, tc, program)
	if err != nil {
		return nil, err
	}
	return start(exec.CommandContext(ctx, path, args...), tc.Name)
}

func (k *Kit) build(ctx context.Context, tc *Toolchain, program string) (string, error) {
	if err := k.check(ctx, tc); err != nil {
		return "", err
	}
	name := program + "-" + tc.Name
	b, ok := k.programs[name]
	if !ok {
		b.path, b.err = filepath.Join(k.dir, name), nil
		if out, err := k.compile(ctx, tc, program+tc.Suffix, b.path); err != nil {
			b.err = fmt.Errorf("%s %s: %w: %s", tc.Compiler, program+tc.Suffix, err, firstError(out))
		}
		if ctx.Err() == nil {
			k.programs[name] = b
		}
	}
	return b.path, b.err
}

// check finds out, once, whether the tool chain works here.
func (k *Kit) check(ctx context.Context, tc *Toolchain) error {
	err, known := k.usable[tc]
	if !known {
		err = k.tryOut(ctx, tc)
		if ctx.Err() == nil {
			k.usable[tc] = err
		}
	}
	return err
}

func (k *Kit) tryOut(ctx context.Context, tc *Toolchain) error {
	if _, err := exec.LookPath(tc.Compiler); err != nil {
		return harness.Skip("no %s in PATH: install %s to compare with %s", tc.Compiler, tc.Needs, tc.Name)
	}
	if err := k.unpack(); err != nil {
		return err
	}
	source := "probe-" + tc.Name + filepath.Ext(tc.Suffix)
	if err := os.WriteFile(filepath.Join(k.dir, source), []byte(tc.probe), 0o600); err != nil {
		return err
	}
	if out, err := k.compile(ctx, tc, source, filepath.Join(k.dir, "probe-"+tc.Name)); err != nil {
		return harness.Skip("%s cannot build programs for %s: install %s (%s)", tc.Compiler, tc.Name, tc.Needs, firstError(out))
	}
	return nil
}

// unpack writes the sources to a directory for the compilers.
func (k *Kit) unpack() error {
	if k.dir != "" {
		return nil
	}
	dir, err := os.MkdirTemp("", "weft-bench-")
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, k.sources); err != nil {
		_ = os.RemoveAll(dir) // the first error is reported
		return fmt.Errorf("sources of the peers: %w", err)
	}
	k.dir = dir
	return nil
}

func (k *Kit) compile(ctx context.Context, tc *Toolchain, source, output string) ([]byte, error) {
	args := append([]string{}, tc.Flags...)
	args = append(args, "-o", output, source)
	args = append(args, tc.Libs...)
	cmd := exec.CommandContext(ctx, tc.Compiler, args...)
	cmd.Dir = k.dir
	return cmd.CombinedOutput()
}

// firstError returns the first line of a compiler's output that contains the word error, or else
// its first line.
func firstError(out []byte) string {
	text := string(bytes.TrimSpace(out))
	for line := range strings.Lines(text) {
		if strings.Contains(line, "error:") {
			return strings.TrimSpace(line)
		}
	}
	line, _, _ := strings.Cut(text, "\n")
	return line
}
