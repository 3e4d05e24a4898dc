// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"weft/examples/heat/internal/kernel"
	"weft/nam"
)

// ErrHelp is returned if help is requested; the text is Help or ViewHelp.
var ErrHelp = errors.New("help requested")

// flagSet defines flags with long and short names, and records which were given.
type flagSet struct {
	*flag.FlagSet
	explicit map[string]bool
}

func newFlagSet(name string) *flagSet {
	fs := &flagSet{flag.NewFlagSet(name, flag.ContinueOnError), map[string]bool{}}
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	return fs
}

// add defines a flag by a set function, under one or two names.
func (fs *flagSet) add(long, short string, isBool bool, set func(string) error) {
	v := value{isBool, func(s string) error {
		fs.explicit[long] = true
		return set(s)
	}}
	fs.Var(v, long, "")
	if short != "" {
		fs.Var(v, short, "")
	}
}

func (fs *flagSet) number(dst *int, long, short string, def, least, most int) {
	*dst = def
	fs.add(long, short, false, func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return fmt.Errorf("legal is a whole number from %d to %d", least, most)
		}
		*dst = n
		return nil
	})
}

func (fs *flagSet) real(dst *float64, long, short string, def float64) {
	*dst = def
	fs.add(long, short, false, func(s string) error {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || !(x >= 0) || math.IsInf(x, 0) {
			return errors.New("legal is a finite number, 0 or more")
		}
		*dst = x
		return nil
	})
}

func (fs *flagSet) text(dst *string, long, short, what string) {
	fs.add(long, short, false, func(s string) error {
		if s == "" {
			return fmt.Errorf("legal is %s", what)
		}
		*dst = s
		return nil
	})
}

func (fs *flagSet) window(dst *string) {
	fs.add("window", "", false, func(s string) error {
		if nam.CheckName(s) != nil {
			return errors.New("legal is a name of 1 to 255 bytes of UTF-8, without blanks and control characters")
		}
		*dst = s
		return nil
	})
}

func (fs *flagSet) choice(dst *string, long, short string, legal []string) {
	*dst = legal[0]
	fs.add(long, short, false, func(s string) error {
		for _, l := range legal {
			if s == l {
				*dst = s
				return nil
			}
		}
		return fmt.Errorf("legal is %s", strings.Join(legal, ", "))
	})
}

func (fs *flagSet) toggle(dst *bool, long, short string) {
	fs.add(long, short, true, func(s string) error {
		b, err := strconv.ParseBool(s)
		if err != nil {
			return errors.New("legal is true or false")
		}
		*dst = b
		return nil
	})
}

// parse parses args, and returns an error for arguments that are not flags.
func (fs *flagSet) parse(args []string) error {
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return ErrHelp
		}
		return usage("%v; %s -h lists the legal flags", err, fs.Name())
	}
	if fs.NArg() > 0 {
		return usage("unexpected argument %q; %s -h lists the legal flags", fs.Arg(0), fs.Name())
	}
	return nil
}

// value is a flag.Value that calls a function.
type value struct {
	isBool bool
	set    func(string) error
}

func (v value) Set(s string) error { return v.set(s) }
func (v value) String() string     { return "" }
func (v value) IsBoolFlag() bool   { return v.isBool }

// Parse parses the command line of a run. started is the number of ranks if the process was started
// as one of several, otherwise 0. It returns ErrHelp or a *UsageError.
func Parse(args []string, started int) (*Run, error) {
	fs := newFlagSet("heat")
	f := &raw{explicit: fs.explicit}
	f.define(fs)
	if err := fs.parse(args); err != nil {
		return nil, err
	}
	if started > 0 {
		if f.explicit["ranks"] && f.ranks != started {
			return nil, usage("-ranks is %d, but %d ranks were started: leave the flag out, or start as many", f.ranks, started)
		}
		f.ranks = started
	}
	r, err := f.resolve()
	if err == nil {
		r.Launched = started > 0
	}
	return r, err
}

// define adds the flags of a run.
func (f *raw) define(fs *flagSet) {
	fs.number(&f.size, "size", "s", defaultSize, 1, maxExtent)
	fs.number(&f.rows, "rows", "r", defaultSize, 1, maxExtent)
	fs.number(&f.cols, "cols", "c", defaultSize, 1, maxExtent)
	fs.number(&f.timesteps, "timesteps", "t", defaultTimesteps, 1, maxSteps)
	fs.number(&f.bs, "bs", "b", defaultBlock, 1, maxExtent)
	fs.number(&f.rbs, "rbs", "R", defaultBlock, 1, maxExtent)
	fs.number(&f.cbs, "cbs", "C", defaultBlock, 1, maxExtent)
	fs.real(&f.delta, "delta", "d", defaultDelta)
	fs.text(&f.sources, "sources-file", "f", "a file name")
	fs.number(&f.wins, "wins", "w", 0, 1, maxExtent)
	fs.toggle(&f.noWarmup, "no-warmup", "W")
	fs.text(&f.output, "output", "o", "a file name")
	fs.toggle(&f.verbose, "verbose", "v")
	fs.choice(&f.variant, "variant", "", Variants)
	fs.choice(&f.kernel, "kernel", "", kernel.Names())
	fs.number(&f.ranks, "ranks", "", defaultRanks, 1, maxRanks)
	fs.number(&f.workers, "workers", "", 0, 1, maxRanks)
	fs.toggle(&f.check, "check", "")
	fs.number(&f.namFreq, "nam-freq", "", 0, 0, maxSteps)
	fs.choice(&f.namSync, "nam-sync", "", Syncs)
	fs.text(&f.namDir, "nam-dir", "", "a directory name")
	fs.window(&f.window)
	fs.text(&f.gif, "gif", "", "a file name")
	fs.text(&f.cpuProfile, "cpuprofile", "", "a file name")
	fs.toggle(&f.progress, "progress", "")
	f.watch.define(fs)
}

// View is the settings of the second program.
type View struct {
	NamDir   string // empty: the default of package nam
	Window   string // empty: not given
	GIF      string
	Progress bool
}

// ParseView parses the command line of heat view. It returns ErrHelp or a *UsageError.
func ParseView(args []string) (*View, error) {
	fs := newFlagSet("heat view")
	v := &View{GIF: defaultGIF}
	fs.text(&v.NamDir, "nam-dir", "", "a directory name")
	fs.window(&v.Window)
	fs.text(&v.GIF, "gif", "", "a file name")
	fs.toggle(&v.Progress, "progress", "")
	if err := fs.parse(args); err != nil {
		return nil, err
	}
	return v, nil
}

// define adds the flags.
func (w *Watch) define(fs *flagSet) {
	fs.toggle(&w.Stats, "stats", "")
	fs.text(&w.Profile, "taskprofile", "", "a file name")
	fs.text(&w.Trace, "trace", "", "a file name")
	fs.add("graph", "", false, func(s string) error {
		if e := filepath.Ext(s); e != ".svg" && e != ".dot" {
			return errors.New("legal is the name of a file that ends in .svg or .dot")
		}
		w.Graph = s
		return nil
	})
	fs.add("http", "", false, func(s string) error {
		if _, _, err := net.SplitHostPort(s); err != nil {
			return errors.New("legal is an address such as localhost:6060, or :0 for any free port")
		}
		w.HTTP = s
		return nil
	})
}
