// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !mpi

package comm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/launch/job"
)

func init() { roles["fails"], roles["disagrees"] = failsRole, disagreesRole }

const failsVariable = "COMM_TEST_FAILS" // what rank 1 does, and which call the others are in then

// failsRole is a run that ends because of rank 1.
func failsRole() error {
	what, where, _ := strings.Cut(os.Getenv(failsVariable), " ")
	return Main(context.Background(), Config{}, func(c *Comm) error {
		if err := c.Barrier(); err != nil {
			return err
		}
		x := []int{0}
		if n, err := strconv.Atoi(where); what == "operator" && err == nil {
			boom := OpFunc(true, func(_, _ []int) { panic("operator boom") })
			return c.Allreduce(Of(make([]int, n)), Of(make([]int, n)), boom)
		}
		if c.Rank() == 1 {
			switch what {
			case "error":
				return errors.New("no such file")
			case "wrapped":
				return c.Send(Of(x), 77, 1)
			case "panic":
				panic("out of joint")
			case "exit":
				os.Exit(3)
			case "kill":
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			case "abort":
				c.Abort(errors.New("enough"))
			}
		}
		switch where {
		case "recv":
			_, err := c.Recv(Of(x), (c.Rank()+1)%c.Size(), 3)
			return err
		case "any":
			_, err := c.Recv(Of(x), AnySource, 3)
			return err
		}
		return c.Barrier()
	})
}

// When a run of several processes ends because of one rank, each rank that reports anything names
// that rank and what it did, in one sentence, on every fabric; the launcher names it too.
func TestAllNameTheCause(t *testing.T) {
	const n = 4
	for what, c := range map[string]struct {
		says     string // all that is reported
		status   int
		launcher string
	}{
		"error":   {"comm: rank 1: no such file", 1, "exit status 1"},
		"wrapped": {"comm: rank 1: send, peer 77, tag 1: no such rank: 77; this communicator has ranks 0 to 3", 1, "exit status 1"},
		"panic":   {"comm: rank 1: panic: out of joint", 1, "exit status 1"},
		"exit":    {"comm: rank 1 is lost: exit status 3", 3, "exit status 3"},
		"kill":    {"comm: rank 1 is lost: killed by signal 9 (killed)", 137, `killed by signal 9 \(killed\)`},
		"abort":   {"comm: rank 1: enough", 1, "exit status 1"},
	} {
		for _, fabric := range []string{"shm", "tcp"} {
			for _, where := range []string{"barrier", "recv", "any"} {
				t.Run(fmt.Sprintf("%s, %s, %s", what, fabric, where), func(t *testing.T) {
					status, out, errOut := start(t, "fails", n, job.Spec{}, failsVariable+"="+what+" "+where, "WEFT_FABRIC="+fabric)
					require.Equal(t, c.status, status, errOut)
					require.Empty(t, out)
					said := regexp.MustCompile(`(?m)^comm: .*$`).FindAllString(errOut, -1)
					for _, line := range said {
						require.Equal(t, c.says, line)
					}
					if what != "exit" && what != "kill" {
						require.NotEmpty(t, said)
					}
					require.Regexp(t, `(?m)^weft run: rank 1 \(\S+\): `+c.launcher+`(; ending the others)?$`, errOut)
					require.LessOrEqual(t, strings.Count(errOut, " [running]:"), 1, "one stack at most, of rank 1: %s", errOut)
				})
			}
		}
	}
}

// The error of an operator's panic has the value and the stack at a rank where it happened,
// whatever the algorithm, and whichever goroutine runs it.
func TestOperatorPanicsInProcesses(t *testing.T) {
	for _, fabric := range []string{"shm", "tcp"} {
		for _, size := range []int{1, 20000, 300000} {
			t.Run(fmt.Sprintf("%s, %d", fabric, size), func(t *testing.T) {
				status, out, errOut := start(t, "fails", 4, job.Spec{}, failsVariable+"=operator "+strconv.Itoa(size), "WEFT_FABRIC="+fabric)
				require.Equal(t, 1, status, errOut)
				require.Empty(t, out)
				said := regexp.MustCompile(`(?m)^comm: .*$`).FindAllString(errOut, -1)
				require.NotEmpty(t, said, errOut)
				for _, line := range said {
					require.Regexp(t, `^comm: rank \d: (allreduce: the operator of a reduction panicked(, at rank \d)?|panic): operator boom$`, line)
				}
				require.Regexp(t, `(?s)operator boom\n\ngoroutine .*failsRole.*cause_test\.go:\d+`, errOut)
				require.NotContains(t, errOut, "\npanic: operator boom", "the process did not crash")
			})
		}
	}
}

// disagreesRole is a run whose last rank is in another collective than the others, on a
// communicator of some of the ranks.
func disagreesRole() error {
	err := Main(context.Background(), Config{}, func(c *Comm) error {
		d, err := c.Split(min(c.Rank(), 1), 0)
		switch {
		case err != nil:
			return err
		case c.Rank() == 0: // no member
			return c.Barrier()
		case c.Rank() == c.Size()-1:
			err = d.Bcast(Of([]int{0}), 1)
		default:
			err = d.Allreduce(Of([]int{0}), Of([]int{0}), Sum)
		}
		if err != nil {
			return err
		}
		return d.Barrier()
	})
	fmt.Println(errors.Is(err, ErrMismatch))
	return err
}

// When ranks do not agree, each process ends with ErrMismatch, and reports it in one sentence.
func TestAllNameTheDisagreement(t *testing.T) {
	for _, fabric := range []string{"shm", "tcp"} {
		t.Run(fabric, func(t *testing.T) {
			status, out, errOut := start(t, "disagrees", 4, job.Spec{}, "WEFT_FABRIC="+fabric)
			require.Equal(t, 1, status, errOut)
			require.NotEmpty(t, out)
			require.NotContains(t, out, "false")
			said := regexp.MustCompile(`(?m)^comm: .*$`).FindAllString(errOut, -1)
			require.NotEmpty(t, said, errOut)
			for _, line := range said {
				require.Regexp(t, `^comm: rank \d: \S+( on rank \d)?(, peer \d)?: ranks do not agree on the collective: number 1 of the communicator: `+
					`rank \d is in (allreduce|bcast) [^:]+, rank \d is in (allreduce|bcast) [^:]+$`, line)
			}
		})
	}
}
