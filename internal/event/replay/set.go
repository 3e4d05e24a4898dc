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

// Open opens the files of one run, a file for each process. The error names the file. Processes are
// numbered by rank.
func Open(names ...string) (*Set, error) {
	s := &Set{}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			s.Close()
			return nil, err
		}
		if err := s.twice(name, f); err != nil {
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
		if err := s.fits(i); err != nil {
			s.Close()
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
	}
	s.align()
	return s, nil
}

// twice says whether a file is there already.
func (s *Set) twice(name string, f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	for _, t := range s.traces {
		if before, err := t.file.Stat(); err == nil && os.SameFile(st, before) {
			return fmt.Errorf("%s: it is the same file as %s; each recording is given once", name, t.name)
		}
	}
	return nil
}

// Launchers says of which files it is not certain that they are of the same run as the first one of
// their machine: those of processes that another launcher has started. Several launchers may make
// one job together.
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

// fits says whether a file can be of the same run as those before it.
func (s *Set) fits(i int) error {
	if i == 0 {
		return nil
	}
	t, before := s.traces[i], s.traces[i-1]
	switch {
	case before.Head.Rank < 0:
		return nil // not one of several; who gives them together wants them so
	case t.Head.Ranks != before.Head.Ranks:
		return fmt.Errorf("it is of a run of %d ranks, and %s of one of %d; the files of one run belong together", t.Head.Ranks, before.name, before.Head.Ranks)
	case t.Head.Rank == before.Head.Rank:
		return fmt.Errorf("it is of rank %d, and so is %s; the files of one run belong together, one for each rank", t.Head.Rank, before.name)
	}
	return nil
}

// Missing returns the ranks of the run of which there is no file.
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

// Head returns what the file of a process says of itself.
func (s *Set) Head(process int) journal.Head { return s.traces[process].Head }

// Processes returns the number of files.
func (s *Set) Processes() int { return len(s.traces) }

// Origin returns where tasks of an origin come from, as far as that has been read.
func (s *Set) Origin(process int, spec uint32) journal.Spec { return s.traces[process].Specs[spec] }

// Lost returns how many events had no room, as far as that has been read.
func (s *Set) Lost() uint64 {
	n := uint64(0)
	for _, t := range s.traces {
		n += t.Lost
	}
	return n
}

// Events returns the events in the order of their times. An event is valid until the next one. The
// sequence ends with an error if a file is damaged or cut: ErrCut comes after all events that are
// there.
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

// Certain returns up to when nothing is missing from the files that are cut, once Events has ended
// with ErrCut: after its last moment, a file may have some sources and not others.
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

// Describe writes an event as a sentence, with what is known of the numbers in it.
func (s *Set) Describe(e *Event) string {
	return event.Sentence(&e.Record, func(spec uint32) string { return s.Name(e.Process, spec) })
}

// Name says where tasks of an origin come from, as far as that has been read.
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
