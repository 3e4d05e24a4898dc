// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package histogram implements ParaStation MPI's histogram of message sizes: its environment
// variables, its bins and its printed layout.
//
//	s, err := histogram.FromEnvironment()
//	counts := make([]uint64, s.Bins())
//	counts[s.Bin(length)]++
//	err = s.Write(os.Stdout, counts)
//
// The limits of the bins are MIN, MIN<<SHIFT, MIN<<2·SHIFT, …, up to the first that is not below
// MAX. A message counts in the first bin whose limit is not below its length, or in the last bin:
// messages larger than MAX count there too. So MIN=64, MAX=4096, SHIFT=2 give four bins, 64, 256,
// 1024 and 4096. The layout is that of release 5.4.7 of ParaStation MPI; later releases print one
// more row, for messages larger than MAX.
//
// Package comm decides which messages are counted.
package histogram

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"weft/internal/env"
)

// ErrSetting: a variable has an illegal value. Nothing is lost: the run has not begun.
var ErrSetting = errors.New("bad setting of the histogram")

// Settings say which messages are counted and in which bins. They are the same on all ranks.
type Settings struct {
	On       bool
	Min, Max uint64   // bytes
	Shift    int      // bits
	Types    []string // of connections; empty: all
}

// FromEnvironment returns the settings of this process's environment. Errors: ErrSetting, with each
// variable that is wrong.
func FromEnvironment() (s Settings, err error) {
	var problems []error
	number := func(v env.Setting[int]) int {
		n, err := v.Value()
		problems = append(problems, err)
		return n
	}
	s.On = number(env.Histogram) == 1
	s.Min = uint64(number(env.HistogramMin))
	s.Max = uint64(number(env.HistogramMax))
	s.Shift = number(env.HistogramShift)
	if env.HistogramMax.Text() == "" {
		s.Max = max(s.Max, s.Min)
	}
	s.Types, err = env.HistogramTypes.Value()
	if err = errors.Join(append(problems, err)...); err == nil && s.Max < s.Min {
		err = fmt.Errorf("%s=%d is below %s=%d", env.HistogramMax.Name, s.Max, env.HistogramMin.Name, s.Min)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrSetting, err)
	}
	return s, err
}

func init() {
	within := env.HistogramMax.Check
	env.HistogramMax.Check = func(text string) error {
		if err := within(text); err != nil {
			return err
		}
		most, _ := env.HistogramMax.Parse(text)
		if least, err := env.HistogramMin.Value(); err == nil && most < least {
			return fmt.Errorf("%s=%q is below %s, %d", env.HistogramMax.Name, text, env.HistogramMin.Name, least)
		}
		return nil
	}
}

// Counts reports whether messages over connections of a type are counted.
func (s *Settings) Counts(connection string) bool {
	return len(s.Types) == 0 || slices.ContainsFunc(s.Types, func(t string) bool {
		return t == connection || t == "gateway" && connection == "gw"
	})
}

// Bins returns the number of bins.
func (s *Settings) Bins() int { return s.first(s.Max) + 1 }

// first returns the first bin whose limit is not below a length, without regard to the number of
// bins: the least i with Min<<(i*Shift) ≥ length.
func (s *Settings) first(length uint64) int {
	if length <= s.Min {
		return 0
	}
	return (bits.Len64((length-1)/s.Min) + s.Shift - 1) / s.Shift
}

// Bin returns the bin of a message.
func (s *Settings) Bin(length uint64) int { return min(s.first(length), s.first(s.Max)) }

// Limit returns the label of a bin: the largest message in it, unless it is the last.
func (s *Settings) Limit(bin int) uint64 { return s.Min << (bin * s.Shift) }

// Write prints the histogram: a header and a row for each bin. A row is the bin's label,
// right-aligned to the widest label, two blanks, and the count. The header names the types of
// connections, as the user wrote them, if not all are counted.
func (s *Settings) Write(w io.Writer, counts []uint64) error {
	n := s.Bins()
	if len(counts) != n {
		panic(fmt.Sprintf("histogram: %d counts for %d bins", len(counts), n))
	}
	width := len(strconv.FormatUint(s.Limit(n-1), 10))
	var b strings.Builder
	fmt.Fprintf(&b, "%*s  freq", width, "bin")
	if len(s.Types) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(s.Types, ","))
	}
	b.WriteByte('\n')
	for i, count := range counts {
		fmt.Fprintf(&b, "%*d  %d\n", width, s.Limit(i), count)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
