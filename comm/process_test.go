// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !mpi

package comm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weft/internal/env"
	"weft/internal/fabric"
	"weft/internal/launch"
	"weft/internal/launch/job"
	"weft/internal/leaktest"
)

// The processes of these tests are this test binary, with a role in the environment.
const (
	roleVariable = "COMM_TEST_ROLE"
	killVariable = "COMM_TEST_KILL" // "RANK:FRAME"
	fileVariable = "COMM_TEST_FILE" // a file that exists once something has happened
)

// roles are what a started rank does. The result is its exit status.
var roles = map[string]func() error{
	"resilient":  resilientRole,
	"stuck":      stuckRole,
	"suspicion":  suspicionRole,
	"sharedcoll": sharedCollRole,
	"mapped":     mappedRole,
}

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		// The race detector delays the exit of a process by a second.
		if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
			panic(err)
		}
		os.Exit(leaktest.Main(m))
	}
	if err := roles[role](); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// suicide is an endpoint that kills its process instead of sending a certain frame.
type suicide struct {
	fabric.Endpoint
	at   int64
	sent atomic.Int64
}

func (s *suicide) step() {
	if s.sent.Add(1) == s.at {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (s *suicide) Send(dst int, f fabric.Frame) error {
	s.step()
	return s.Endpoint.Send(dst, f)
}

func (s *suicide) Push(dst int, key uint64, data []byte, done func(error)) {
	s.step()
	s.Endpoint.Push(dst, key, data, done)
}

func resilientRole() error {
	victim, frame, _ := strings.Cut(os.Getenv(killVariable), ":")
	if os.Getenv(env.Rank.Name) == victim {
		at, err := strconv.ParseInt(frame, 10, 64)
		if err != nil {
			return err
		}
		wrapEndpoint = func(ep fabric.Endpoint) fabric.Endpoint { return &suicide{Endpoint: ep, at: at} }
	}
	return Main(context.Background(), Config{}, func(c *Comm) error {
		c, err := resilient(c, work)
		if err == nil {
			fmt.Printf("done with %d\n", c.Size())
		}
		return err
	})
}

// mappedRole is resilient work that sends almost no frames. The victim dies some time after it has
// begun.
func mappedRole() error {
	victim, micros, _ := strings.Cut(os.Getenv(killVariable), ":")
	n, err := strconv.Atoi(micros)
	if err != nil {
		return err
	}
	return Main(context.Background(), Config{}, func(c *Comm) error {
		dies := strconv.Itoa(c.Rank()) == victim
		if dies {
			time.AfterFunc(time.Duration(n)*time.Microsecond, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
		}
		c, err := resilient(c, mapOften)
		if err == nil {
			fmt.Printf("done with %d\n", c.Size())
		}
		if dies {
			select {} // the others have done all work with it
		}
		return err
	})
}

// mapOften does small collectives.
func mapOften(c *Comm) error {
	n := c.Size()
	sum, all := make([]int, 1), make([]int, n)
	for i := range 400 {
		err := cmp.Or(c.Barrier(),
			c.Allreduce(Of([]int{i + c.Rank()}), Of(sum), Sum), c.Allgather(Of([]int{i * c.Rank()}), Of(all)))
		if err == nil {
			err = cmp.Or(expect("the sum", n*i+n*(n-1)/2, sum[0]), expect("the last part", i*(n-1), all[n-1]))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// start runs this binary as ranks with a role, and returns the exit status and their output. A
// writer of spec gets the standard error as well.
func start(t *testing.T, role string, ranks int, spec job.Spec, env ...string) (status int, out, errOut string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	var stdout, stderr bytes.Buffer
	both := io.Writer(&stderr)
	if spec.Stderr != nil {
		both = io.MultiWriter(&stderr, spec.Stderr)
	}
	spec.Stdout, spec.Stderr, spec.Timeout = &stdout, both, time.Minute
	spec.Parts = []job.Part{{Ranks: ranks, Program: self, Env: append([]string{roleVariable + "=" + role}, env...)}}
	status, err = job.Run(spec)
	require.NoError(t, err)
	return status, stdout.String(), stderr.String()
}

// byMessages makes all collectives send frames, which are counted.
const byMessages = EnvCollectives + "=barrier=dissemination allreduce=doubling allgather=direct alltoall=direct"

// A process that is killed between small collectives, at whatever time, is lost to the others.
func TestKillProcessInAMappedColl(t *testing.T) {
	const n = 4
	times := []int{0, 100, 300, 700, 1000, 1500, 2000, 3000, 5000, 8000}
	if testing.Short() {
		times = []int{300, 1500}
	}
	for i, micros := range times {
		t.Run(fmt.Sprintf("after %d µs", micros), func(t *testing.T) {
			status, out, errOut := start(t, "mapped", n, job.Spec{KeepGoing: true}, EnvSurvive+"=1", fmt.Sprintf("%s=%d:%d", killVariable, i%n, micros))
			require.Equal(t, job.StatusSignalBase+int(syscall.SIGKILL), status, errOut)
			with3, with4 := strings.Count(out, "done with 3\n"), strings.Count(out, "done with 4\n")
			require.True(t, with3 == 3 && with4 == 0 || with3 == 0 && with4 >= 3, "%s\n%s", out, errOut)
		})
	}
}

// A process that is killed, at whatever frame, is lost to the others, which do the work without it.
func TestKillProcess(t *testing.T) {
	const n = 4
	for victim := range 2 {
		frames := []int{4 - 3*victim, 8, 11, 14, 17, 20, 24}
		if testing.Short() {
			frames = []int{8, 24}
		}
		for _, frame := range frames {
			t.Run(fmt.Sprintf("rank %d at frame %d", victim, frame), func(t *testing.T) {
				status, out, errOut := start(t, "resilient", n, job.Spec{KeepGoing: true}, EnvSurvive+"=1", fmt.Sprintf("%s=%d:%d", killVariable, victim, frame), byMessages)
				require.Equal(t, job.StatusSignalBase+int(syscall.SIGKILL), status, errOut)
				// It may have died when all had done the work, or once more with all.
				with3, with4 := strings.Count(out, "done with 3\n"), strings.Count(out, "done with 4\n")
				require.True(t, with3 == 3 && with4 == 0 || with3 == 0 && with4 >= 3, "%s\n%s", out, errOut)
			})
		}
	}
}

// Without Survive the launcher ends all.
func TestKillProcessEndsTheJob(t *testing.T) {
	status, out, errOut := start(t, "resilient", 3, job.Spec{}, killVariable+"=1:20", byMessages)
	require.Equal(t, job.StatusSignalBase+int(syscall.SIGKILL), status, errOut)
	require.Empty(t, out)
	require.Contains(t, errOut, "killed by signal 9")
}

// stuckRole is a deadlock of three ranks, one of which has returned.
func stuckRole() error {
	deadlockPeriod = often
	return Main(context.Background(), Config{}, func(c *Comm) error {
		switch c.Rank() {
		case 0:
			_, err := c.Recv(Of(make([]int, 1)), 1, 5)
			return err
		case 1:
			return c.Send(Of(make([]int, 1<<16)), 0, 6)
		}
		return nil
	})
}

// A deadlock among processes is found by rank 0, and ends the job.
func TestDeadlockOfProcesses(t *testing.T) {
	status, out, errOut := start(t, "stuck", 3, job.Spec{})
	require.Equal(t, launch.StatusDeadlock, status, errOut)
	require.Empty(t, out)
	require.Contains(t, errOut, "deadlock: all ranks wait")
	require.Regexp(t, `rank 0 waits in Recv at \S*process_test\.go:\d+, for: Recv from rank 1, tag 5,`, errOut)
	require.Regexp(t, `rank 1 waits in Send at \S*process_test\.go:\d+, for: Send of 524288 bytes to rank 0, tag 6,`, errOut)
	require.Regexp(t, `rank 2 waits in the end of its function`, errOut)
}

// Recording what ranks do does not hide that they do nothing.
func TestDeadlockWhileRecording(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	status, _, errOut := start(t, "stuck", 3, job.Spec{}, "WEFT_TRACE="+trace)
	require.Equal(t, launch.StatusDeadlock, status, errOut)
	require.FileExists(t, trace+".rank1")
}

// suspicionRole is a run of three ranks that all wait, until a goroutine of rank 1 finds a file.
// The run goes on for a while, in which nothing new must be reported.
func suspicionRole() error {
	deadlockPeriod = often
	return Main(context.Background(), Config{}, func(c *Comm) error {
		if c.Rank() == 1 {
			go func() {
				for _, err := os.Stat(os.Getenv(fileVariable)); err != nil; _, err = os.Stat(os.Getenv(fileVariable)) {
					time.Sleep(often)
				}
				time.Sleep(10 * often)
				_ = c.Send(Of([]byte{1}), 0, 0)
				_ = c.Send(Of([]byte{1}), 1, 0)
				_ = c.Send(Of([]byte{1}), 2, 0)
			}()
		}
		_, err := c.Recv(Of(make([]byte, 1)), 1, 0)
		return err
	})
}

// If a goroutine of one process may still act, rank 0 reports that, once, with what each rank waits
// for.
func TestSuspicionOfProcesses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "said")
	status, _, errOut := start(t, "suspicion", 3, job.Spec{Stderr: writerFunc(func(text []byte) {
		if bytes.Contains(text, []byte("a deadlock, unless")) {
			assert.NoError(t, os.WriteFile(file, nil, 0o600))
		}
	})}, fileVariable+"="+file)
	require.Zero(t, status, errOut)
	require.Equal(t, 1, strings.Count(errOut, "a deadlock, unless a goroutine of the program acts"), errOut)
	require.Contains(t, errOut, "rank 2 waits in Recv at ")
	require.Regexp(t, `that may act: goroutine \d+ \[sleep\] weft/comm\.suspicionRole\S* at \S*process_test\.go`, errOut)
}

// sharedCollRole is a deadlock of three ranks: two sleep in mapped collectives, one of them in a
// large reduction, and one has returned.
func sharedCollRole() error {
	deadlockPeriod = often
	return Main(context.Background(), Config{}, func(c *Comm) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		if err := c.Barrier(); err != nil {
			return err
		}
		if c.member == nil || d.member == nil {
			return errors.New("there is no mapped memory")
		}
		switch c.Rank() {
		case 0:
			return c.Barrier()
		case 1:
			return d.Allreduce(Of(make([]int, 1<<14)), Of(make([]int, 1<<14)), Sum)
		}
		return nil
	})
}

// A caller that sleeps in a mapped collective waits like any other: only a frame would wake it.
func TestDeadlockInMappedColls(t *testing.T) {
	status, out, errOut := start(t, "sharedcoll", 3, job.Spec{})
	require.Equal(t, launch.StatusDeadlock, status, errOut)
	require.Empty(t, out)
	require.Regexp(t, `rank 0 waits in Barrier at \S*process_test\.go:\d+, for: rank 1 in barrier number 3,`, errOut)
	require.Regexp(t, `rank 1 waits in Allreduce at \S*process_test\.go:\d+, for: rank 0 in allreduce \(sum\) number 1,`, errOut)
	require.Regexp(t, `rank 2 waits in the end of its function`, errOut)
}
