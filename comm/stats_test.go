// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/env"

	"github.com/stretchr/testify/require"
)

// counting sets the environment for a histogram, and returns its output.
func counting(t *testing.T, vars ...string) *strings.Builder {
	t.Helper()
	for _, name := range []string{env.Histogram.Name, env.HistogramMin.Name, env.HistogramMax.Name, env.HistogramShift.Name, env.HistogramTypes.Name, EnvStats} {
		t.Setenv(name, "")
	}
	for _, kv := range vars {
		k, v, _ := strings.Cut(kv, "=")
		t.Setenv(k, v)
	}
	var out strings.Builder
	before := histogramOut
	histogramOut = &out
	t.Cleanup(func() { histogramOut = before })
	return &out
}

// Messages of all kinds are counted once, at the sender: of user and collectives, eager and large,
// to oneself; not those to ProcNull, nor those that collect the counters.
func TestHistogramCounts(t *testing.T) {
	small := []string{env.Histogram.Name + "=1", env.HistogramMax.Name + "=4096", env.HistogramShift.Name + "=2"}
	body := func(c *Comm) error {
		next, last := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
		for _, n := range []int{0, 64, 65, 1025, 4096, 1 << 20} { // bins 0, 0, 1, 3, 3, 3
			if _, err := c.Sendrecv(Of(make([]byte, n)), next, 0, Of(make([]byte, n)), last, 0); err != nil {
				return err
			}
		}
		m := make([]float64, 64)
		r := c.Irecv(Vector(m, 8, 2, 8), c.Rank(), 1) // 128 bytes to oneself: bin 1
		if err := c.Send(Vector(m[4:], 8, 2, 8), c.Rank(), 1); err != nil {
			return err
		}
		if _, err := r.Wait(c.Context()); err != nil {
			return err
		}
		if err := c.Send(Of(m), ProcNull, 1); err != nil {
			return err
		}
		return c.Barrier() // two messages of a rank of four
	}
	for how, run := range runners {
		for types, want := range map[string]string{
			"":            " bin  freq\n  64  16\n 256  8\n1024  0\n4096  12\n",
			kinds[how]:    " bin  freq (" + kinds[how] + ")\n  64  16\n 256  4\n1024  0\n4096  12\n",
			"loop":        " bin  freq (loop)\n  64  0\n 256  4\n1024  0\n4096  0\n",
			"gateway,mpi": " bin  freq (gateway,mpi)\n  64  0\n 256  0\n1024  0\n4096  0\n",
		} {
			out := counting(t, append(small, env.HistogramTypes.Name+"="+types)...)
			require.NoError(t, run(context.Background(), Config{Ranks: 4}, body))
			require.Equal(t, want, out.String(), how+" "+types)
		}
	}
}

func TestHistogramIsSilent(t *testing.T) {
	for how, run := range runners {
		out := counting(t)
		require.NoError(t, run(context.Background(), Config{Ranks: 2}, func(c *Comm) error { return c.Barrier() }))
		require.Empty(t, out.String(), how+": off")
		out = counting(t, env.Histogram.Name+"=1")
		require.NoError(t, run(context.Background(), Config{Ranks: 2}, func(c *Comm) error { return nil }))
		require.Empty(t, out.String(), how+": nothing sent")
		require.Error(t, run(context.Background(), Config{Ranks: 2}, func(c *Comm) error {
			if err := c.Barrier(); err != nil || c.Rank() == 1 {
				return err
			}
			return fmt.Errorf("no")
		}))
		require.Empty(t, out.String(), how+": a run that failed")
	}
}

func TestHistogramSettingsAreChecked(t *testing.T) {
	counting(t, env.HistogramShift.Name+"=0")
	for _, run := range runners {
		err := run(context.Background(), Config{Ranks: 2}, func(*Comm) error { panic("runs") })
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, `PSP_HISTOGRAM_SHIFT="0"; legal: 1 to 20`)
	}
}

// statsFile is what tests read of the file of WEFT_STATS.
type statsFile struct {
	Ranks         int
	Missing       []int
	Communicators []struct {
		Ranks []int
		Stats []Stats
	}
}

// Counters of communicators, at their ranks and in the file.
func TestStats(t *testing.T) {
	for how, run := range runners {
		file := filepath.Join(t.TempDir(), "stats.json")
		counting(t, EnvStats+"="+file)
		require.NoError(t, run(context.Background(), Config{Ranks: 3, EagerLimit: 1 << 10}, func(c *Comm) error {
			half, err := c.Split(c.Rank()%2, -c.Rank()) // {2, 0} and {1}
			if err != nil {
				return err
			}
			peer := 1 - half.Rank()
			for _, n := range []int{10, 1 << 20} {
				if c.Rank() == 1 {
					break
				}
				r := half.Irecv(Of(make([]byte, n)), peer, 0)
				if err := half.Send(Of(make([]byte, n)), peer, 0); err != nil {
					return err
				}
				if _, err := r.Wait(c.Context()); err != nil {
					return err
				}
			}
			if c.Rank() == 1 {
				return expect("peers of rank 1", 1, len(half.Stats().Peers))
			}
			got := half.Stats().Peers[peer]
			if how == "apart" {
				got.Connection = kinds[how]
			}
			return expect("counters", PeerStats{peer, kinds[how], 2, 10 + 1<<20, 2, 10 + 1<<20}, got)
		}))
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		var all statsFile
		require.NoError(t, json.Unmarshal(b, &all))
		require.Equal(t, 3, all.Ranks)
		require.Empty(t, all.Missing)
		require.Len(t, all.Communicators, 3)
		world, half := all.Communicators[0], all.Communicators[1]
		require.Equal(t, []int{0, 1, 2}, world.Ranks)
		require.Equal(t, []int{2, 0}, half.Ranks)
		require.Len(t, half.Stats, 2)
		sent, received := uint64(0), uint64(0)
		for _, g := range all.Communicators {
			for _, s := range g.Stats {
				for _, p := range s.Peers {
					sent, received = sent+p.SentBytes, received+p.ReceivedBytes
				}
			}
		}
		require.Equal(t, sent, received)
		require.Greater(t, sent, uint64(2<<20))
	}
	counting(t)
	require.NoError(t, Run(context.Background(), Config{Ranks: 2}, func(c *Comm) error {
		return expect("peers without counters", 0, len(c.Stats().Peers))
	}))
	require.NoError(t, Run(context.Background(), Config{Ranks: 2, Stats: true}, func(c *Comm) error {
		return expect("peers", 2, len(c.Stats().Peers))
	}))
}

func TestStatsFileThatCannotBeWritten(t *testing.T) {
	counting(t, EnvStats+"="+filepath.Join(t.TempDir(), "no", "such"))
	for _, run := range runners {
		err := run(context.Background(), Config{Ranks: 2}, func(c *Comm) error { return nil })
		require.ErrorContains(t, err, EnvStats)
		require.ErrorIs(t, err, os.ErrNotExist)
	}
}

// Counting from many goroutines of many ranks loses nothing.
func TestStatsHammer(t *testing.T) {
	out := counting(t, env.Histogram.Name+"=1", env.HistogramMax.Name+"=64")
	const goroutines, each = 4, 200
	require.NoError(t, Run(context.Background(), Config{Ranks: 3, Stats: true}, func(c *Comm) error {
		errs := make(chan error)
		for g := range goroutines {
			go func() {
				errs <- func() error {
					for range each {
						if err := c.Send(Of([]int{g}), (c.Rank()+1)%3, g); err != nil {
							return err
						}
						if _, err := c.Recv(Of([]int{0}), (c.Rank()+2)%3, g); err != nil {
							return err
						}
					}
					return nil
				}()
			}()
		}
		for range goroutines {
			if err := <-errs; err != nil {
				return err
			}
		}
		s := c.Stats()
		if err := expect("sent", goroutines*each, s.Peers[(c.Rank()+1)%3].SentMessages); err != nil {
			return err
		}
		return expect("received", goroutines*each, s.Peers[(c.Rank()+2)%3].ReceivedMessages)
	}))
	require.Equal(t, fmt.Sprintf("bin  freq\n64  %d\n", 3*goroutines*each), out.String())
}
