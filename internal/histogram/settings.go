// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package histogram is ParaStation MPI's histogram of messages: its environment variables, its bins, its layout.
//
//	s, err := histogram.FromEnv(os.Getenv)
//	counts := make([]uint64, s.Bins())
//	counts[s.Bin(length)]++
//	err = s.Write(os.Stdout, counts)
//
// The limits of the bins are MIN, MIN<<SHIFT, MIN<<2·SHIFT, …, up to the first that is not below MAX. A message is in the first bin
// whose limit is not below its length, or in the last one: what is larger than MAX counts there too. So MIN=64, MAX=4096, SHIFT=2 are
// four bins, 64, 256, 1024 and 4096. That is release 5.4.7 of ParaStation MPI, whose layout this is; later ones print another
// row, for what is larger than MAX.
//
// The package is pure, and says nothing of which messages are counted: package comm does.
package histogram

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// The environment variables.
const (
	EnvOn    = "PSP_HISTOGRAM"
	EnvMin   = "PSP_HISTOGRAM_MIN"
	EnvMax   = "PSP_HISTOGRAM_MAX"
	EnvShift = "PSP_HISTOGRAM_SHIFT"
	EnvTypes = "PSP_HISTOGRAM_CONTYPE"
)

// What counts where the environment says nothing.
const (
	DefaultMin   = 64
	DefaultMax   = 64 << 20
	DefaultShift = 1
)

// maxLimit bounds MIN and MAX in bytes, and maxShift the shift, so that no limit of a bin is beyond 2^60.
const (
	maxLimit = 1 << 40
	maxShift = 20
)

// ConnectionTypes are the legal types of connections. gateway means gw, as in later releases.
var ConnectionTypes = []string{"loop", "inproc", "shm", "tcp", "mpi", "gw", "gateway"}

// ErrSetting: a variable has a value that it cannot have. Nothing is lost: the run has not begun.
var ErrSetting = errors.New("bad setting of the histogram")

// Settings say what is counted, and how. They are the same on all ranks.
type Settings struct {
	On       bool
	Min, Max uint64   // bytes
	Shift    int      // bits
	Types    []string // of connections; empty: all
}

// FromEnv returns the settings of an environment. Errors: ErrSetting, with each variable that is wrong.
func FromEnv(getenv func(string) string) (Settings, error) {
	s, problems := read(getenv)
	var all []error
	for _, p := range problems {
		all = append(all, p.err)
	}
	return s, errors.Join(all...)
}

// Check returns what is wrong with one of the variables.
func Check(name string, getenv func(string) string) error {
	_, problems := read(getenv)
	for _, p := range problems {
		if p.name == name {
			return p.err
		}
	}
	return nil
}

type problem struct {
	name string
	err  error
}

func read(getenv func(string) string) (s Settings, problems []problem) {
	bad := func(name, format string, args ...any) {
		args = append([]any{ErrSetting, name, getenv(name)}, args...)
		problems = append(problems, problem{name, fmt.Errorf("%w: %s=%q; "+format, args...)})
	}
	number := func(name string, standard, least, most uint64, what string) uint64 {
		text := getenv(name)
		if text == "" {
			return standard
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n < least || n > most {
			bad(name, "it is %s, %d to %d", what, least, most)
			return standard
		}
		return n
	}
	switch getenv(EnvOn) {
	case "", "0":
	case "1":
		s.On = true
	default:
		bad(EnvOn, "it is 0 or 1")
	}
	s.Min = number(EnvMin, DefaultMin, 1, maxLimit, "a number of bytes")
	s.Max = number(EnvMax, max(DefaultMax, s.Min), 1, maxLimit, "a number of bytes")
	s.Shift = int(number(EnvShift, DefaultShift, 1, maxShift, "a number of bits"))
	if s.Max < s.Min && len(problems) == 0 {
		bad(EnvMax, "it is a number of bytes, %d (%s) to %d", s.Min, EnvMin, uint64(maxLimit))
	}
	if text := getenv(EnvTypes); text != "" {
		s.Types = strings.Split(text, ",")
		for _, t := range s.Types {
			if !slices.Contains(ConnectionTypes, t) {
				bad(EnvTypes, "it is one of %s, or several with commas between", strings.Join(ConnectionTypes, ", "))
				break
			}
		}
	}
	return s, problems
}

// Counts reports whether messages over connections of a type are counted.
func (s *Settings) Counts(connection string) bool {
	return len(s.Types) == 0 || slices.ContainsFunc(s.Types, func(t string) bool {
		return t == connection || t == "gateway" && connection == "gw"
	})
}

// Bins returns the number of bins.
func (s *Settings) Bins() int { return s.first(s.Max) + 1 }

// first returns the first bin, of as many as there might be, whose limit is not below a length: the least i with
// Min<<(i*Shift) ≥ length.
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

// Write prints the histogram: a header and a row for each bin. Labels are right-aligned to the largest of them; two blanks, and the
// count. The header names the types of connections, as the user wrote them, if not all are counted.
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
