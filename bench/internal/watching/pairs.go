// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package watching

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Options says what to measure.
type Options struct {
	Pairs int           // rounds: each has one of each pair
	Time  time.Duration // of each process
	// command line of this program that measures a way and writes its Result as JSON
	Args func(way string, d time.Duration) []string
}

// Programs holds the programs to run.
type Programs struct {
	dir  string
	with string // this program's source, as it is
	bare string // without the probe
}

// Build makes the programs. It needs the go command and the source of this module.
func Build(ctx context.Context) (*Programs, error) {
	root, err := output(exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "weft"))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weft-watching-")
	if err != nil {
		return nil, err
	}
	p := &Programs{dir, filepath.Join(dir, "with"), filepath.Join(dir, "without")}
	over, err := overlay(root, dir)
	if err == nil {
		for _, args := range [][]string{{"-o", p.with}, {"-overlay", over, "-o", p.bare}} {
			c := exec.CommandContext(ctx, "go", slices.Concat([]string{"build"}, args, []string{"weft/bench"})...)
			c.Dir = root
			if _, err = output(c); err != nil {
				break
			}
		}
	}
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

// Close removes the programs.
func (p *Programs) Close() error { return os.RemoveAll(p.dir) }

// output is Cmd.Output with the text of standard error in the error, and without the line's end.
func output(c *exec.Cmd) (string, error) {
	var errs bytes.Buffer
	c.Stderr = &errs
	b, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, errs.String())
	}
	return strings.TrimSpace(string(b)), nil
}

// A Round has the results of one round, by the name of the way.
type Round map[string]Result

// Measure runs the rounds. It calls told, if not nil, after each.
func (p *Programs) Measure(ctx context.Context, o Options, told func(n int)) (rounds []Round, err error) {
	ways := Ways()
	for n := range o.Pairs {
		r := Round{}
		for _, i := range rand.Perm(len(ways)) {
			w := &ways[i]
			program := p.with
			if w.Name == Without {
				program = p.bare
			}
			b, err := output(exec.CommandContext(ctx, program, o.Args(w.Name, o.Time)...))
			if err != nil {
				return rounds, err
			}
			var x Result
			if err := json.Unmarshal([]byte(b), &x); err != nil {
				return rounds, fmt.Errorf("%s: %w", w.Name, err)
			}
			r[w.Name] = x
		}
		rounds = append(rounds, r)
		if told != nil {
			told(n + 1)
		}
	}
	return rounds, nil
}

// A Row is the summary of a way.
type Row struct {
	Way
	PerTask float64 // median
	Lost    float64 // median
	Ratio   float64 // median, to the base; zero if there is none
	CPU     float64 // median, of processor time
	Low     float64 // interval of the median, in nineteen of twenty cases
	High    float64
}

// Rows summarizes rounds.
func Rows(rounds []Round) (rows []Row) {
	for _, w := range Ways() {
		var per, ratio, lost, cpu []float64
		for _, r := range rounds {
			per, lost = append(per, r[w.Name].PerTask), append(lost, r[w.Name].Lost)
			if w.Base != "" {
				ratio = append(ratio, r[w.Name].PerTask/r[w.Base].PerTask)
				cpu = append(cpu, r[w.Name].CPU/r[w.Base].CPU)
			}
		}
		x := Row{Way: w, PerTask: median(per), Lost: median(lost)}
		if w.Base != "" {
			x.Ratio, x.CPU = median(ratio), median(cpu)
			lo, hi := interval(len(ratio))
			x.Low, x.High = ratio[lo], ratio[hi] // median has sorted them
		}
		rows = append(rows, x)
	}
	return rows
}

func median(list []float64) float64 {
	slices.Sort(list)
	if len(list) == 0 {
		return math.NaN()
	}
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}

// interval returns the indices of n sorted values between which the true median lies in nineteen
// cases of twenty. Each value is below the median with probability one half, so the number of
// values below it has a binomial distribution.
func interval(n int) (lo, hi int) {
	tail, p := 0.0, math.Pow(0.5, float64(n)) // of exactly k values below it
	for k := range n {
		if tail += p; tail > 0.025 {
			return max(k-1, 0), min(n-k, n-1)
		}
		p *= float64(n-k) / float64(k+1)
	}
	return 0, n - 1
}

// Write writes rows as a table.
func Write(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "way\tns/task\tratio\tinterval\tto\tgoal\t\tof processor time\tlost events/task\twhat")
	for _, r := range rows {
		if r.Base == "" {
			_, _ = fmt.Fprintf(t, "%s\t%.1f\t\t\t\t\t\t\t\t%s\n", r.Name, r.PerTask, r.About)
			continue
		}
		goal, met := "-", ""
		switch {
		case r.Name == Off:
			goal, met = "1 in it", "missed"
			if r.Low <= r.Goal {
				met = "met"
			}
		case r.Goal > 0:
			goal, met = fmt.Sprintf("≤ %.2f", r.Goal), "missed"
			if r.Ratio <= r.Goal {
				met = "met"
			}
		}
		_, _ = fmt.Fprintf(t, "%s\t%.1f\t%.3f\t%.3f–%.3f\t%s\t%s\t%s\t%.3f\t%.2f\t%s\n", r.Name, r.PerTask, r.Ratio, r.Low, r.High, r.Base, goal, met, r.CPU, r.Lost, r.About)
	}
	return t.Flush()
}
