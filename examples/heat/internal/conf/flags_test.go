// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/examples/heat/internal/grid"
)

func parse(t *testing.T, line string) *Run {
	t.Helper()
	r, err := Parse(strings.Fields(line), 0)
	require.NoError(t, err, line)
	return r
}

func TestBareRun(t *testing.T) {
	t.Chdir(t.TempDir())
	r := parse(t, "")
	require.True(t, r.Bare)
	require.True(t, r.Check)
	require.Equal(t, ITAMPI, r.Variant)
	require.Equal(t, "heat.gif", r.GIF)
	require.Equal(t, DefaultSources, r.Sources)
	require.Empty(t, r.Warnings)
	require.GreaterOrEqual(t, r.SnapshotCount(), 10)
	require.LessOrEqual(t, r.SnapshotCount(), 30)

	r = parse(t, "-v")
	require.False(t, r.Bare)
	require.False(t, r.Check)
	require.Empty(t, r.GIF)
}

// Long and short spellings, with one and two dashes, are the same.
func TestSpellings(t *testing.T) {
	t.Chdir(t.TempDir())
	want := parse(t, "-rows 100 -cols 50 -timesteps 7 -rbs 10 -cbs 25 -delta 0.5 -wins 2 -no-warmup -verbose")
	require.Equal(t, want, parse(t, "-r 100 -c 50 -t 7 -R 10 -C 25 -d 0.5 -w 2 -W -v"))
	require.Equal(t, want, parse(t, "--rows=100 --cols=50 --timesteps=7 --rbs=10 --cbs=25 --delta=.5 --wins=2 --no-warmup --verbose"))
	require.Equal(t, grid.Layout{Rows: 100, Cols: 50, Ranks: 2, RowBlock: 10, ColBlock: 25}, want.Layout)
	require.Equal(t, parse(t, "-size 64 -bs 16 -output x.ppm"), parse(t, "-s 64 -b 16 -o x.ppm"))
}

func TestRounding(t *testing.T) {
	t.Chdir(t.TempDir())
	r := parse(t, "-size 1000 -bs 128 -ranks 3")
	require.Equal(t, grid.Layout{Rows: 1152, Cols: 1024, Ranks: 3, RowBlock: 128, ColBlock: 128}, r.Layout)
	require.Equal(t, []string{
		"rows rounded up from 1000 to 1152, a multiple of ranks x block rows = 3 x 128",
		"columns rounded up from 1000 to 1024, a multiple of block columns = 128",
	}, r.Warnings)
	require.Empty(t, parse(t, "-size 1024 -bs 128 -ranks 2").Warnings)
	// The default block adapts to a small matrix.
	r = parse(t, "-size 10 -ranks 2")
	require.Equal(t, grid.Layout{Rows: 10, Cols: 10, Ranks: 2, RowBlock: 5, ColBlock: 10}, r.Layout)
}

func TestSnapshotDefaults(t *testing.T) {
	t.Chdir(t.TempDir())
	for steps := 9; steps < 3000; steps++ {
		f := raw{timesteps: steps, size: 4, bs: 4, ranks: 1, explicit: map[string]bool{}, kernel: "rows8"}
		r, err := f.resolve()
		require.NoError(t, err)
		require.GreaterOrEqual(t, r.SnapshotCount(), 10, steps)
		require.LessOrEqual(t, r.SnapshotCount(), 30, steps)
	}
	require.Equal(t, 6, parse(t, "-t 50 -nam-freq 10").SnapshotCount())
	require.Equal(t, 0, parse(t, "-t 50 -nam-freq 0").SnapshotCount())
	require.Equal(t, "process", parse(t, "-t 50").NamSync)
	require.Equal(t, SyncEpoch, parse(t, "-t 50 -nam-sync epoch").NamSync)
	// Gigabytes of snapshots must be requested.
	r := parse(t, "-size 8192 -t 100")
	require.Equal(t, 0, r.SnapshotCount())
	require.Len(t, r.Warnings, 1)
	require.Contains(t, r.Warnings[0], "request them by -nam-freq 5")
	require.Equal(t, 21, parse(t, "-size 8192 -t 100 -nam-freq 5").SnapshotCount())
	require.Equal(t, 21, parse(t, "-size 8192 -t 100 -gif x.gif").SnapshotCount())
}

func TestDefaultWinsDivideTheColumnBlocks(t *testing.T) {
	t.Chdir(t.TempDir())
	for cols, want := range map[string]int{"16": 4, "12": 4, "6": 3, "5": 1, "1": 1, "7": 1, "10": 2} {
		require.Equal(t, want, parse(t, "-rows 8 -bs 1 -cols "+cols).Wins, cols)
	}
}

func TestUsageErrorsNameWhatIsLegal(t *testing.T) {
	t.Chdir(t.TempDir())
	for line, want := range map[string]string{
		"-foo":                          "flag provided but not defined: -foo; heat -h lists the legal flags",
		"-size":                         "flag needs an argument: -size; heat -h lists the legal flags",
		"-size abc":                     `invalid value "abc" for flag -size: legal is a whole number from 1 to 16777216; heat -h`,
		"-s 0":                          "legal is a whole number from 1 to",
		"-timesteps -3":                 "legal is a whole number from 1 to",
		"-ranks 0":                      "legal is a whole number from 1 to 4096",
		"-workers 0":                    "legal is a whole number from 1 to 4096",
		"-nam-freq -1":                  "legal is a whole number from 0 to",
		"-delta nan":                    "legal is a finite number, 0 or more",
		"-check=maybe":                  "legal is true or false",
		"-variant mpi3":                 `invalid value "mpi3" for flag -variant: legal is itampi, tampirma, mpi`,
		"-kernel fast":                  `legal is rows8, row, naive`,
		"-rows 5":                       "-rows and -cols go together",
		"-rows 5 -cols 6 -size 7":       "-size 7 is for a square matrix, but -rows is 5 and -cols is 6",
		"-size 12 -bs 1 -wins 5":        "-wins is 5, but the 12 column blocks must divide evenly over the windows: legal is 1, 2, 3, 4, 6, 12",
		"-size 8 -bs 8 -wins 2":         "legal is 1",
		"-gif x -nam-freq 0":            "-gif needs snapshots",
		"-window x -nam-freq 0":         "-window needs snapshots",
		"-nam-sync epoch -nam-freq 0":   "-nam-sync needs snapshots",
		"-nam-sync always":              "legal is process, epoch",
		"-sources-file nowhere":         "sources file: open nowhere",
		"run":                           `unexpected argument "run"; heat -h`,
		"-rows 16777216 -cols 16777216": "cells are too many",
	} {
		_, err := Parse(strings.Fields(line), 0)
		var u *UsageError
		require.ErrorAs(t, err, &u, line)
		require.ErrorContains(t, err, want, line)
	}
	_, err := Parse([]string{"-gif", ""}, 0)
	require.ErrorContains(t, err, "legal is a file name")
	for _, parse := range []func([]string) error{
		func(args []string) error { _, err := Parse(args, 0); return err },
		func(args []string) error { _, err := ParseView(args); return err },
	} {
		var u *UsageError
		err := parse([]string{"-window", "a b"})
		require.ErrorAs(t, err, &u)
		require.ErrorContains(t, err, `invalid value "a b" for flag -window: legal is a name of 1 to 255 bytes of UTF-8, without blanks`)
	}
	for _, h := range []string{"-h", "-help", "--help"} {
		_, err = Parse([]string{h}, 0)
		require.ErrorIs(t, err, ErrHelp)
		_, err = ParseView([]string{h})
		require.ErrorIs(t, err, ErrHelp)
	}
}

func TestParseView(t *testing.T) {
	v, err := ParseView(strings.Fields("-nam-dir d -window w -gif g"))
	require.NoError(t, err)
	require.Equal(t, &View{NamDir: "d", Window: "w", GIF: "g"}, v)
	v, err = ParseView(nil)
	require.NoError(t, err)
	require.Equal(t, &View{GIF: "heat.gif"}, v)
	_, err = ParseView([]string{"-x"})
	require.ErrorContains(t, err, "heat view -h lists the legal flags")
}

// The help text names every flag.
func TestHelpIsComplete(t *testing.T) {
	fs := newFlagSet("heat")
	f := &raw{explicit: fs.explicit}
	f.define(fs)
	fs.VisitAll(func(fl *flag.Flag) {
		require.Contains(t, Help, "-"+fl.Name, fl.Name)
	})
}
