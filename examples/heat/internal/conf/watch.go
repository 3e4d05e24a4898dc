// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
)

// Watch is what of the tasks is to be seen.
type Watch struct {
	Stats   bool   // a table after the result
	Profile string // file of the task profile; empty: none
	Graph   string // file of the graph, SVG or DOT; empty: none
	HTTP    string // address of the live page; empty: none
	Trace   string // file of the timeline or recording; empty: none
}

// Wanted reports whether anything is to be seen.
func (w *Watch) Wanted() bool { return *w != Watch{} }

// Tasks reports whether what is to be seen is of tasks, and of those only.
func (w *Watch) Tasks() bool { return w.Stats || w.Profile != "" || w.Graph != "" || w.HTTP != "" }

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

// check finds what cannot be seen.
func (w *Watch) check(variant string, given map[string]bool) error {
	if variant != MPI {
		return nil
	}
	for _, name := range []string{"stats", "taskprofile", "graph", "http"} {
		if given[name] {
			return usage("-%s is about tasks, and the variant %s has none: legal are %s", name, MPI, strings.Join(Variants[:2], " and "))
		}
	}
	return nil
}
