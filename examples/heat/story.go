// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"weft/examples/heat/internal/conf"
)

// story prints messages besides the result line. A run without options prints them to stdout, for a
// reader who tries the program. Other runs print shorter ones to stderr.
type story struct {
	cfg *conf.Run
	w   io.Writer
}

func newStory(cfg *conf.Run, stdout, stderr io.Writer) *story {
	if cfg.Bare {
		return &story{cfg, stdout}
	}
	return &story{cfg, stderr}
}

func (s *story) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.w, format+"\n", args...) }

// before prints the messages at the start.
func (s *story) before(h *heat, page string) {
	if page != "" {
		s.printf("heat: the tasks are shown at http://%s/", page)
	}
	if !s.cfg.Bare {
		if h.store != nil {
			s.printf("heat: snapshots go to window %s in %s", h.window, h.store.Dir())
		}
		return
	}
	l := s.cfg.Layout
	where := ""
	if s.cfg.Launched {
		where = " in processes of their own"
	}
	s.printf("Heat spreads over a plate of %d x %d cells: %d time steps, %d ranks%s, blocks of %d x %d, variant %s.",
		l.Rows, l.Cols, s.cfg.Timesteps, l.Ranks, where, l.RowBlock, l.ColBlock, s.cfg.Variant)
}

// after prints the messages at the end of a successful run.
func (s *story) after(h *heat) {
	if !s.cfg.Bare {
		if s.cfg.Check {
			s.printf("heat: check passed: equal to a sequential sweep, bit by bit")
		}
		if s.cfg.GIF != "" {
			s.printf("heat: wrote %s", s.cfg.GIF)
		}
		return
	}
	s.printf("Checked: equal to a sequential sweep, bit by bit.")
	s.printf("Snapshots: %d, in network-attached memory: window %s in %s.", s.cfg.SnapshotCount(), h.window, h.store.Dir())
	s.printf("Picture: %s, made from these snapshots.", s.cfg.GIF)
	s.printf("")
	s.printf("What to try next, in this order:")
	s.printf("  go run ./examples/heat view -window %s -gif again.gif   # the second program, on its own", word(h.window))
	// Without snapshots: a run that makes an unnamed window would remove the window of this run.
	s.printf("  go run ./examples/heat -variant tampirma -ranks 3 -size 1024 -bs 128 -timesteps 50 -nam-freq 0 -check")
	mine := freeName(h.store, "mine")
	s.printf("  go run ./examples/heat -window %s -gif %s.gif   # later runs do not remove a named window", mine, mine)
	s.printf("  %s", removeCommand(h.store, h.window))
	s.printf("  go run ./examples/heat -h")
}
