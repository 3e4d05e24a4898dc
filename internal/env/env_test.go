// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProblem(t *testing.T) {
	const foreign = "ParaStation MPI's, which weft does not have"
	for name, want := range map[string]string{
		"WEFT_WORKERS": "", "PSP_TCP": "", "PSP_SMP_NODE_ID": "", "WEFT_TEST_ANYTHING": "",
		"PATH": "", "": "", "WEFT": "", "W": "", "PSP_OF_SOMEBODY_ELSE": "", "PWD_ROOT": "", "WANDB_MODE": "", "PIP_RETRY": "",
		"WEFT_WROKERS":              "no such variable; did you mean WEFT_WORKERS?",
		"WEFT_WORKER":               "no such variable; did you mean WEFT_WORKERS?",
		"WEFT_RANG":                 "no such variable; did you mean WEFT_RANK?",
		"WEFT_COLECTIVE":            "no such variable; did you mean WEFT_COLLECTIVES?",
		"WETF_WORKERS":              "no such variable; did you mean WEFT_WORKERS?",
		"weft_workers":              "no such variable; did you mean WEFT_WORKERS?",
		"Weft_Workers":              "no such variable; did you mean WEFT_WORKERS?",
		"psp_shm":                   "no such variable; did you mean PSP_SHM?",
		"weft_of_somebody_else":     "",
		"WEFT_":                     "no such variable",
		"WEFT_SOMETHING_OF_MY_OWN":  "no such variable",
		"PSP_HISTOGRAMM":            "no such variable; did you mean PSP_HISTOGRAM?",
		"PSP_SMP_NODEID":            "no such variable; did you mean PSP_SMP_NODE_ID?",
		"PSP_DEBUG":                 foreign,
		"PSP_ONDEMAND":              foreign,
		"PSP_OPENIB_RECVQ_SIZE":     foreign,
		"PSP_SHM_RENDEZVOUS":        foreign,
		"PSP_UCP":                   foreign,
		"PSP_SHAREDMEM":             foreign + "; weft has PSP_SHM",
		"PSP_FINALIZE_BARRIER":      foreign,
		"PSP_MSA_MODULE_ID":         foreign,
		"PSP_MSA_NODE_ID":           foreign + "; weft has PSP_SMP_NODE_ID",
		"PSP_COLLOPS_STATS":         foreign + "; weft has WEFT_STATS",
		"PSP_CUDA_ENFORCE_STAGING":  foreign,
		"PSP_UNEXPECTED_RECEIVES":   foreign,
		"PSP_UNEXPECTED_RECEIVES_X": foreign,
	} {
		require.Equal(t, want, Problem(name), name)
	}
}

func TestUnknown(t *testing.T) {
	require.Equal(t, []string{"PSP_DEBUG", "WEFT_A"}, Unknown([]string{"WEFT_A=1", "PATH=/", "WEFT_B=", "WEFT_C", "PSP_DEBUG=2", "WEFT_A=2", "WEFT_RANKS=many"}))
	require.Empty(t, Unknown(nil))
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "AB", 2}, {"AB", "", 2}, {"AB", "BA", 1}, {"ABC", "ABD", 1}, {"ABC", "ABCD", 1}, {"KITTEN", "SITTING", 3}} {
		require.Equal(t, c.want, distance(c.a, c.b), "%s %s", c.a, c.b)
	}
}

// One process of a job reports, whichever launcher has started it. It knows its rank and their
// number if the launcher sets both.
func TestIsReporter(t *testing.T) {
	for _, l := range Launchers {
		t.Setenv(l.Rank, "")
		t.Setenv(l.Ranks, "")
	}
	for _, l := range Launchers {
		for rank, want := range map[string]bool{"": true, "0": true, "1": false} {
			t.Setenv(l.Rank, rank)
			require.Equal(t, want, IsReporter(), "%s=%s", l.Rank, rank)
			r, n := RankAndSize()
			require.Equal(t, []int{-1, 1}, []int{r, n})
		}
		t.Setenv(l.Rank, "1")
		t.Setenv(l.Ranks, "2")
		r, n := RankAndSize()
		if l.Rank == "SLURM_PROCID" {
			require.Equal(t, []int{-1, 1}, []int{r, n}, "srun sets the variables for any program")
		} else {
			require.Equal(t, []int{1, 2}, []int{r, n})
		}
		t.Setenv(l.Rank, "")
		t.Setenv(l.Ranks, "")
	}
}

// An unknown name of several ranks is reported once, and one that this process has is not.
func TestWarnOthers(t *testing.T) {
	t.Setenv("WEFT_WINDWO", "9")
	var w strings.Builder
	WarnOthers(nil, &w, [][]string{nil, {"WEFT_RANG", "WEFT_WINDWO"}, {"WEFT_RANG", "PSP_DEBUG"}})
	require.Equal(t, "weft: environment variable WEFT_RANG: no such variable; did you mean WEFT_RANK? (at rank 1)\n"+
		"weft: environment variable PSP_DEBUG: ParaStation MPI's, which weft does not have (at rank 2)\n", w.String())
	w.Reset()
	WarnOthers(slog.New(slog.NewTextHandler(&w, nil)), nil, [][]string{nil, {"WEFT_RANG"}})
	require.Contains(t, w.String(), `name=WEFT_RANG problem="no such variable; did you mean WEFT_RANK?" rank=1`)
	t.Setenv("PMI_RANK", "1")
	require.Equal(t, []string{"WEFT_WINDWO"}, Silent())
	t.Setenv("PMI_RANK", "0")
	require.Empty(t, Silent())
}

// Each variable has one row, and the lists of other variables contain none of weft's.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range Table {
		require.False(t, seen[v.Name], v.Name)
		seen[v.Name] = true
		require.NotEmpty(t, v.Meaning)
		require.NotEmpty(t, v.Values)
		require.NotEmpty(t, v.Reader)
		require.True(t, v.Set || v.Default != "" || v.Standard() == "-", v.Name)
	}
	for name, other := range instead {
		name = "PSP_" + name
		require.False(t, seen[name], name)
		require.True(t, seen[other] || other == "Config.EagerLimit of package comm", other)
		require.Contains(t, Problem(name), other)
	}
}

// The values that settings accept, and the errors for those that they do not.
func TestSettings(t *testing.T) {
	for _, row := range []struct {
		v     *Variable
		right []string
		wrong []string
		legal string
		unset string
	}{
		{Workers.Variable, []string{"1", "4096"}, []string{"0", "4097", "many", " 1", "1.0"}, "1 to 4096 (number of slots of", "0"},
		{Survive.Variable, []string{"0", "1"}, []string{"2", "-1", "yes"}, "0, 1 (1: the other ranks", "0"},
		{DeadlockWarnings.Variable, []string{"-1", "0", "9223372036854775807"}, []string{"-2", "never"}, "-1 or more (", "0"},
		{Watchdog.Variable, []string{"0", "1ms", "24h"}, []string{"1", "999us", "24h1ns", "-1s"}, "a time from 1ms to 24h, such as 10s; 0 (", "0s"},
		{DeadAfter.Variable, []string{"2s", "1h"}, []string{"0", "1999ms", "61m", "10", "soon", "-5s"}, "a time from 2s to 1h, such as 20s (", "8s"},
		{MPISleep.Variable, []string{"0s", "4ms", "1s"}, []string{"2s", "-1ms", "4"}, "a time from 0s to 1s, such as 500us (", "16ms"},
		{SingleCopy.Variable, []string{"never", "1", "1048576"}, []string{"0", "-1", "1MiB", "always"}, "bytes, at least 1, or never (", "33554432"},
		{Fabrics.Variable, []string{"tcp", "tcp,shm"}, []string{"ucp", "tcp,tcp", "tcp,", ","}, "shm, mpi, tcp, or several, separated by commas (", "all"},
		{Node.Variable, []string{"0", "01", "2147483647"}, []string{"-1", "2147483648", "0x1"}, "0 to 2147483647 (", "-1"},
	} {
		require.Equal(t, row.unset, row.v.Standard(), row.v.Name)
		for _, text := range row.right {
			t.Setenv(row.v.Name, text)
			require.NoError(t, row.v.Problem(), "%s=%s", row.v.Name, text)
		}
		for _, text := range row.wrong {
			t.Setenv(row.v.Name, text)
			require.ErrorContains(t, row.v.Problem(), fmt.Sprintf("%s=%q; legal: %s", row.v.Name, text, row.legal))
		}
		t.Setenv(row.v.Name, "")
		require.NoError(t, row.v.Problem())
	}
	t.Setenv(DeadAfter.Name, "3s")
	d, err := DeadAfter.Value()
	require.NoError(t, err)
	require.Equal(t, 3*time.Second, d)
	t.Setenv(DeadAfter.Name, "")
	d, err = DeadAfter.Value()
	require.NoError(t, err)
	require.Equal(t, DefaultDeadAfter, d)
	names, err := Fabrics.Parse("tcp,shm")
	require.NoError(t, err)
	require.Equal(t, []string{"tcp", "shm"}, names)
	never, err := SingleCopy.Parse("never")
	require.NoError(t, err)
	require.Equal(t, -1, never)
}
