// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"log/slog"
	"strings"
	"testing"

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

func TestStrange(t *testing.T) {
	require.Equal(t, []string{"PSP_DEBUG", "WEFT_A"}, Strange([]string{"WEFT_A=1", "PATH=/", "WEFT_B=", "WEFT_C", "PSP_DEBUG=2", "WEFT_A=2", "WEFT_RANKS=many"}))
	require.Empty(t, Strange(nil))
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "AB", 2}, {"AB", "", 2}, {"AB", "BA", 1}, {"ABC", "ABD", 1}, {"ABC", "ABCD", 1}, {"KITTEN", "SITTING", 3}} {
		require.Equal(t, c.want, distance(c.a, c.b), "%s %s", c.a, c.b)
	}
}

// One process speaks for a job, whoever has started it.
func TestFirst(t *testing.T) {
	for _, name := range []string{"WEFT_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"} {
		for rank, want := range map[string]bool{"": true, "0": true, "1": false} {
			require.Equal(t, want, first(func(n string) string {
				if n == name {
					return rank
				}
				return ""
			}), "%s=%s", name, rank)
		}
	}
}

// What several ranks have is said once, and not what this process has.
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

// Each variable has one row, and the lists of what is not weft's name nothing that is.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range Table {
		require.False(t, seen[v.Name], v.Name)
		seen[v.Name] = true
		require.NotEmpty(t, v.Meaning)
	}
	for name, other := range instead {
		name = "PSP_" + name
		require.False(t, seen[name], name)
		require.True(t, seen[other] || other == "Config.EagerLimit of package comm", other)
		require.Contains(t, Problem(name), other)
	}
}
