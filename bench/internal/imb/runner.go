// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package imb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"weft/bench/internal/harness"
	"weft/comm"
)

// A Peer is a way of running ranks.
type Peer struct {
	Name  string
	Class string // of the peers that it is compared with: shm, tcp or mpi
	Ours  bool

	// start returns the command that runs n ranks of a program. The program reports the rows of one
	// benchmark. If start is nil, the ranks are goroutines of this process.
	start func(ctx context.Context, r *Runner, n int, bench string, o *Options) (*exec.Cmd, error)
}

// A Runner builds what peers need, each once and when it is first needed, and removes it on Close.
type Runner struct {
	Source []byte // of the MPI program
	// the command line of this program as one of several ranks
	Self   []string
	Stderr io.Writer // for the output of programs besides rows

	dir    string
	builds map[string]built
}

type built struct {
	path string
	err  error
}

// Close removes the programs.
func (r *Runner) Close() error {
	if r.dir == "" {
		return nil
	}
	return os.RemoveAll(r.dir)
}

// build builds the program called name, once. command returns the command that builds it at a path.
func (r *Runner) build(ctx context.Context, name string, command func(path string) *exec.Cmd) (string, error) {
	if b, ok := r.builds[name]; ok {
		return b.path, b.err
	}
	if r.dir == "" {
		dir, err := os.MkdirTemp("", "weft-bench-")
		if err != nil {
			return "", err
		}
		r.dir, r.builds = dir, map[string]built{}
	}
	b := built{path: filepath.Join(r.dir, name)}
	cmd := command(b.path)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.err = fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(out))
	}
	if ctx.Err() == nil {
		r.builds[name] = b
	}
	return b.path, b.err
}

// arguments returns the arguments of the programs. weft's and the peers' are the same.
func arguments(bench string, o *Options) []string {
	var sizes []string
	for _, s := range find(bench).sizesOf(o.Sizes) {
		sizes = append(sizes, strconv.FormatInt(s, 10))
	}
	sync := "0"
	if o.Sync {
		sync = "1"
	}
	return []string{"-bench", bench, "-sizes", strings.Join(sizes, ","), "-iter", strconv.FormatInt(o.Iter, 10),
		"-vol", strconv.FormatInt(o.Volume, 10), "-time", strconv.FormatFloat(o.Time.Seconds(), 'g', -1, 64), "-sync", sync}
}

// Run runs one benchmark on n ranks of a peer. The rows are reported as they come. The error wraps
// harness.ErrSkipped where the peer cannot run here.
func (r *Runner) Run(ctx context.Context, p *Peer, n int, bench string, o Options, report func(Row)) error {
	if len(find(bench).sizesOf(o.Sizes)) == 0 {
		return nil
	}
	if p.start == nil {
		return inProcess(ctx, n, bench, o, report)
	}
	// A library may hang if it has fewer processors than ranks.
	limit := time.Minute + 4*o.Time*time.Duration(len(o.Sizes))
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it was ended after %v", limit))
	defer cancel()
	cmd, err := p.start(ctx, r, n, bench, &o)
	if err != nil {
		return err
	}
	cmd.Stderr = r.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second // for a launcher to end its ranks
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	rows := 0
	err = readRows(out, r.Stderr, func(row Row) {
		if bench == "Start" {
			row.Max = float64(time.Since(began).Nanoseconds()) / 1e3
			row.Min, row.Avg = row.Max, row.Max
		}
		rows++
		report(row)
	})
	if waited := cmd.Wait(); waited != nil {
		if ctx.Err() != nil {
			waited = context.Cause(ctx)
		}
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), waited)
	}
	if err == nil && rows == 0 {
		err = fmt.Errorf("%s: it reported no row", strings.Join(cmd.Args, " "))
	}
	return err
}

// inProcess measures on goroutines.
func inProcess(ctx context.Context, n int, bench string, o Options, report func(Row)) error {
	began := time.Now()
	return comm.Run(ctx, comm.Config{Ranks: n}, func(c *comm.Comm) error {
		return Measure(c, []string{bench}, o, func(row Row) error {
			if bench == "Start" {
				row.Max = float64(time.Since(began).Nanoseconds()) / 1e3
				row.Min, row.Avg = row.Max, row.Max
			}
			report(row)
			return nil
		})
	})
}

// Here measures on the ranks of the job that this process belongs to, or on ranks of its own. It
// reports at rank 0.
func Here(ctx context.Context, ranks int, names []string, o Options, report func(Row) error) error {
	return comm.Main(ctx, comm.Config{Ranks: ranks}, func(c *comm.Comm) error { return Measure(c, names, o, report) })
}

// Report returns a function that writes rows as lines of JSON.
func Report(w io.Writer) func(Row) error { return func(r Row) error { return r.write(w) } }

// Launched reports whether this process has been started as one of several ranks.
func Launched() bool {
	for _, name := range []string{"WEFT_JOB", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

// Skipped reports whether an error says that a peer cannot run here.
func Skipped(err error) bool { return errors.Is(err, harness.ErrSkipped) }
