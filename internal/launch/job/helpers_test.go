// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/env"
	"weft/internal/launch"
	"weft/internal/leaktest"
)

// The processes of these tests are this test binary, with a role in the environment.
const (
	roleVariable = "JOB_TEST_ROLE"
	specVariable = "JOB_TEST_SPEC"
)

// roles are the functions of ranks and launchers by role. The result is the exit status.
var roles = map[string]func() int{
	"launcher": launcherRole,
	"fence":    fenceRole,
	"meet":     meetRole,
	"leave0":   func() int { return joined(func(c *launch.Client) int { return 0 }) },
	"vanish":   func() int { return staying(0) },
	"vanish3":  func() int { return staying(3) },
	"abort": func() int {
		return joined(func(c *launch.Client) int {
			if c.Rank() == 1 {
				check(c.Abort(7, "enough of this"))
				return 3
			}
			wait(c)
			return 0
		})
	},
	"wait": func() int { return joined(func(c *launch.Client) int { wait(c); return 0 }) },
	"close-connection": func() int {
		return joined(func(c *launch.Client) int {
			if c.Rank() == 1 {
				closeConnection()
				time.Sleep(time.Hour)
			}
			wait(c)
			return 0
		})
	},
	"signals": signalsRole,
	"deaf": func() int {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		fmt.Println("ready")
		select {}
	},
	"bytes": bytesRole,
	"watch": func() int {
		return joined(func(c *launch.Client) int {
			if c.Rank() == 1 {
				return exitNow(9)
			}
			ch := make(chan error, 3)
			c.Watch(func(err error) { ch <- err })
			for err := range ch {
				if err.(*launch.Death).Rank == 1 {
					fmt.Println(err)
					return 0
				}
			}
			return 1
		})
	},
}

func TestMain(m *testing.M) {
	if Janitor() {
		return
	}
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(roles[role]())
	}
	// By default the race detector makes a process wait for a second at its exit.
	check(os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")))
	os.Exit(leaktest.Main(m))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(99)
	}
}

func join() *launch.Client {
	p, err := launch.Detect()
	check(err)
	c, err := p.Join(context.Background())
	check(err)
	return c
}

// joined takes part in the job, and leaves it.
func joined(f func(c *launch.Client) int) int {
	c := join()
	status := f(c)
	check(c.Leave())
	return status
}

// staying joins the job; rank 1 ends without leaving, and the others wait.
func staying(status int) int {
	c := join()
	if c.Rank() == 1 {
		return status
	}
	wait(c)
	return 0
}

func exitNow(status int) int {
	os.Exit(status)
	return 0
}

// wait waits for ever.
func wait(c *launch.Client) {
	fmt.Println("ready")
	_, _ = c.Get(context.Background(), c.Rank(), "never")
}

// meetRole meets the other ranks and prints which ones.
func meetRole() int {
	return joined(func(c *launch.Client) int {
		peers, err := c.Meet(context.Background(), map[string][]byte{"x": {byte(c.Rank())}})
		check(err)
		for r, p := range peers {
			if p.Rank != r || p.Addrs["x"][0] != byte(r) {
				return 9
			}
		}
		fmt.Println("met", c.Rank(), len(peers), c.Spread(), c.Part())
		return 0
	})
}

// fenceRole makes fences until the launcher or a rank is gone.
func fenceRole() int {
	c := join()
	check(c.Fence(context.Background()))
	fmt.Println("ready", os.Getpid())
	for {
		if err := c.Fence(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "fence:", err)
			select {}
		}
	}
}

// closeConnection closes all sockets of the process.
func closeConnection() {
	for fd := 3; fd < 64; fd++ {
		if _, err := syscall.Getsockname(fd); err == nil {
			_ = syscall.Shutdown(fd, syscall.SHUT_RDWR)
		}
	}
}

// signalsRole prints the signals that it gets; USR2 is the last.
func signalsRole() int {
	ch := make(chan os.Signal, 16)
	signal.Notify(ch)
	fmt.Println("ready")
	for s := range ch {
		if s != syscall.SIGURG {
			fmt.Println(s)
		}
		if s == syscall.SIGUSR2 {
			return 0
		}
	}
	return 1
}

// bytesRole writes lines, in pieces: "RANK:NUMBER:xxx...".
func bytesRole() int {
	var lines, length, piece int
	_, err := fmt.Sscan(os.Args[1], &lines)
	check(err)
	_, err = fmt.Sscan(os.Args[2], &length)
	check(err)
	_, err = fmt.Sscan(os.Args[3], &piece)
	check(err)
	rank := os.Getenv(env.Rank.Name)
	for i := range lines {
		line := fmt.Appendf(nil, "%s:%d:", rank, i)
		line = append(line, bytes.Repeat([]byte{'x'}, length)...)
		line = append(line, '\n')
		for len(line) > 0 {
			n, err := os.Stdout.Write(line[:min(piece, len(line))])
			check(err)
			line = line[n:]
		}
	}
	return 0
}

// launcherSpec is a Spec for a launcher in another process.
type launcherSpec struct {
	Parts   []Part
	Grace   time.Duration
	Janitor bool

	Label                    bool
	OutputDir                string
	Listen, Join, SecretFile string
	Elsewhere, First         int
	Wait                     time.Duration
}

func launcherRole() int {
	var s launcherSpec
	check(json.Unmarshal([]byte(os.Getenv(specVariable)), &s))
	causeTime = time.Minute // on a loaded machine, a rank may take long even for short work
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, Forwarded()...)
	ignorePipe := make(chan os.Signal, 1)
	signal.Notify(ignorePipe, syscall.SIGPIPE)
	status, err := Run(Spec{Parts: s.Parts, Grace: s.Grace, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Signals: signals, Janitor: s.Janitor,
		Label: s.Label, OutputDir: s.OutputDir, Listen: s.Listen, Join: s.Join, SecretFile: s.SecretFile, Elsewhere: s.Elsewhere, First: s.First, Wait: s.Wait})
	check(err)
	return status
}

// role returns a part of ranks with a role.
func role(name string, ranks int, args ...string) Part {
	return Part{Ranks: ranks, Program: os.Args[0], Args: args, Env: []string{roleVariable + "=" + name}}
}

// shell returns a part of ranks that are scripts.
func shell(ranks int, script string) Part {
	return Part{Ranks: ranks, Program: "sh", Args: []string{"-c", script}}
}

// outcome is the result of a job.
type outcome struct {
	status      int
	err         error
	out, errOut string
}

func (o outcome) lines() []string { return strings.Split(strings.TrimSuffix(o.out, "\n"), "\n") }

// isolate makes the jobs of a test use a fresh directory for theirs, and checks that it is empty in
// the end.
func isolate(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "j") // t.TempDir is too long for a socket
	require.NoError(t, err)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Cleanup(func() {
		left, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		require.Empty(t, left, "a job leaves nothing behind")
		require.NoError(t, os.RemoveAll(dir))
	})
	return dir
}

func run(t *testing.T, s Spec) outcome {
	t.Helper()
	if os.Getenv("XDG_RUNTIME_DIR") == "" || !strings.HasPrefix(filepath.Base(os.Getenv("XDG_RUNTIME_DIR")), "j") {
		isolate(t)
	}
	var out, errOut bytes.Buffer
	if s.Stdout == nil {
		s.Stdout = &out
	}
	if s.Stderr == nil {
		s.Stderr = &errOut
	}
	s.Janitor = true
	status, err := Run(s)
	return outcome{status, err, out.String(), errOut.String()}
}

// lineWriter passes lines on as they are written.
type lineWriter struct {
	mu    sync.Mutex
	rest  []byte
	lines chan string
}

func newLineWriter() *lineWriter { return &lineWriter{lines: make(chan string, 1024)} }

func (w *lineWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, b...)
	for {
		line, rest, ok := bytes.Cut(w.rest, []byte{'\n'})
		if !ok {
			return len(b), nil
		}
		w.lines <- string(line)
		w.rest = rest
	}
}

// await returns when n lines with this beginning have come.
func (w *lineWriter) await(t *testing.T, n int, prefix string) (found []string) {
	t.Helper()
	deadline := time.After(60 * time.Second)
	for len(found) < n {
		select {
		case l := <-w.lines:
			if strings.HasPrefix(l, prefix) {
				found = append(found, l)
			}
		case <-deadline:
			t.Fatalf("%d of %d lines %q", len(found), n, prefix)
		}
	}
	return found
}

var _ io.Writer = (*lineWriter)(nil)
