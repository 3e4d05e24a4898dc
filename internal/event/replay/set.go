// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"slices"

	"weft/internal/event"
	"weft/internal/event/journal"
)

// Open opens the files of one run, one file for each process. Errors name the file. Processes are
// numbered in the order of their ranks.
func Open(names ...string) (*Set, error) {
	s := &Set{}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			s.Close()
			return nil, err
		}
		if err := s.checkDuplicate(name, f); err != nil {
			_ = f.Close() // only read
			s.Close()
			return nil, err
		}
		r, err := journal.NewReader(f)
		if err != nil {
			_ = f.Close() // err says what is wrong
			s.Close()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		s.traces = append(s.traces, &trace{Reader: r, name: name, file: f, order: order{start: r.Head.Start}})
	}
	slices.SortStableFunc(s.traces, func(a, b *trace) int { return a.Head.Rank - b.Head.Rank })
	for i, t := range s.traces {
		t.order.process = i
		if err := s.checkSameRun(i); err != nil {
			s.Close()
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
	}
	s.align()
	return s, nil
}

// checkDuplicate returns an error if f has been opened before, under whatever name.
func (s *Set) checkDuplicate(name string, f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	for _, t := range s.traces {
		if before, err := t.file.Stat(); err == nil && os.SameFile(st, before) {
			return fmt.Errorf("%s: it is the same file as %s; give each recording once", name, t.name)
		}
	}
	return nil
}

// Launchers returns a note for each file whose process was started by another launcher than the
// first process of its machine: the file may be of another run. Several launchers may also make one
// job together.
func (s *Set) Launchers() (notes []string) {
	first := map[string]*trace{}
	for _, t := range s.traces {
		if t.Head.Job == "" {
			continue
		}
		before := first[t.Head.Boot]
		switch {
		case before == nil:
			first[t.Head.Boot] = t
		case before.Head.Job != t.Head.Job:
			notes = append(notes, fmt.Sprintf("%s and %s were started by different launchers (jobs %s and %s): if these did not make one job together, the files are of different runs",
				before.name, t.name, before.Head.Job, t.Head.Job))
		}
	}
	return notes
}

// checkSameRun returns an error if file i cannot be of the same run as the file before it.
func (s *Set) checkSameRun(i int) error {
	if i == 0 {
		return nil
	}
	t, before := s.traces[i], s.traces[i-1]
	switch {
	case before.Head.Rank < 0:
		return nil // not one of several ranks: the caller decides which files belong together
	case t.Head.Ranks != before.Head.Ranks:
		return fmt.Errorf("it is of a run of %d ranks, and %s is of a run of %d ranks; give the files of one run", t.Head.Ranks, before.name, before.Head.Ranks)
	case t.Head.Rank == before.Head.Rank:
		return fmt.Errorf("it is of rank %d, and so is %s; give one file for each rank of one run", t.Head.Rank, before.name)
	}
	return nil
}

// Missing returns the ranks of the run that have no file.
func (s *Set) Missing() (ranks []int) {
	next, all := 0, 0
	for _, t := range s.traces {
		if t.Head.Rank < 0 {
			return nil
		}
		for ; next < t.Head.Rank; next++ {
			ranks = append(ranks, next)
		}
		next, all = t.Head.Rank+1, t.Head.Ranks
	}
	for ; next < all; next++ {
		ranks = append(ranks, next)
	}
	return ranks
}

// Close closes the files.
func (s *Set) Close() {
	for _, t := range s.traces {
		_ = t.file.Close() // only read
	}
}

// Head returns the head of a process's file.
func (s *Set) Head(process int) journal.Head { return s.traces[process].Head }

// Processes returns the number of files.
func (s *Set) Processes() int { return len(s.traces) }

// Origin returns the origin with a number, if its block has been read; otherwise the zero Spec.
func (s *Set) Origin(process int, spec uint32) journal.Spec { return s.traces[process].Specs[spec] }

// Lost returns how many records were lost, according to the blocks read so far.
func (s *Set) Lost() uint64 {
	n := uint64(0)
	for _, t := range s.traces {
		n += t.Lost
	}
	return n
}

// Events returns the records in the order of their times. A record is valid until the next one. The
// sequence ends with an error if a file is damaged or cut. ErrCut follows all records of the files.
func (s *Set) Events() iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		for {
			var first *trace
			for _, t := range s.traces {
				t.fill()
				if t.at < len(t.ready) && (first == nil || t.ready[t.at].Time < first.ready[first.at].Time) {
					first = t
				}
				if t.at == len(t.ready) && !errors.Is(t.err, io.EOF) && !errors.Is(t.err, journal.ErrCut) {
					yield(nil, fmt.Errorf("%s: %w", t.name, t.err))
					return
				}
			}
			if first == nil {
				break
			}
			first.at++
			if !yield(&first.ready[first.at-1], nil) {
				return
			}
		}
		var cut []error
		for _, t := range s.traces {
			if !errors.Is(t.err, io.EOF) {
				cut = append(cut, fmt.Errorf("%s: %w", t.name, t.err))
			}
		}
		if err := errors.Join(cut...); err != nil {
			yield(nil, err)
		}
	}
}

// Certain returns the time up to which no record is missing from the files that are cut, once
// Events has ended with ErrCut. After the last moment of a cut file, records of some sources may be
// there and those of others not.
func (s *Set) Certain() int64 {
	until := int64(math.MaxInt64)
	for _, t := range s.traces {
		if errors.Is(t.err, journal.ErrCut) {
			whole := int64(math.MinInt64) // no moment has come
			if t.order.whole != 0 {
				whole = t.order.time(t.order.whole) - int64(Horizon)
			}
			until = min(until, whole)
		}
	}
	return until
}

// Describe formats a record as a sentence, with the names that have been read so far.
func (s *Set) Describe(e *Event) string {
	return event.Sentence(&e.Record, func(spec uint32) string { return s.Name(e.Process, spec) })
}

// Name describes the origin with a number, if its block has been read.
func (s *Set) Name(process int, spec uint32) string {
	o := s.Origin(process, spec)
	switch {
	case o.Label != "" && o.Where == "":
		return fmt.Sprintf("%q", o.Label)
	case o.Label != "":
		return fmt.Sprintf("%q at %s", o.Label, o.Where)
	}
	return o.Where
}
