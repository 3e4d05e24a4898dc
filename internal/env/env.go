// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package env is where weft meets the environment of its process. It has the table of weft's
// variables, reads them, and says which names in an environment mean nothing:
//
//	n, err := env.Workers.Value()  // the environment's, or what counts where it says nothing
//	env.Warn(logger, os.Stderr)    // of unknown names, once per job: by task.New and comm.Main
//
// No other package of the library reads the environment; a test of the repository looks. A new
// variable is a row in table.go, of which "weft info" and the tables of docs/environment.md are
// made. What only its owner can judge, the owner's init gives the row: Check and Standard.
package env

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Get returns a variable of this process's environment, weft's or somebody else's; "" if it is not
// set.
func Get(name string) string { return os.Getenv(name) }

// All returns the environment of this process, for another one that it starts.
func All() []string { return os.Environ() }

// Variable is an environment variable of weft.
type Variable struct {
	Name    string
	Values  string // that are legal, in Markdown
	Default string // what counts where it is not set, in Markdown; empty: none
	Meaning string // a line for "weft info"
	More    string // what docs/environment.md says instead, in Markdown; empty: the same
	Reader  string // who reads it, in Markdown
	Set     bool   // a launcher sets it, and nobody else should

	// Check says what is wrong with a value; nil: nothing can be. It may look at other variables.
	Check func(text string) error
	// Standard returns what counts where the variable is not set, for "weft info".
	Standard func() string
}

// Table has all variables, in the order of "weft info".
var Table []*Variable

// Text returns the variable's value in this process; "" if it is not set.
func (v *Variable) Text() string { return Get(v.Name) }

// Problem says what is wrong with the variable's value in this process; nil if nothing is.
func (v *Variable) Problem() error {
	if text := v.Text(); text != "" && v.Check != nil {
		return v.Check(text)
	}
	return nil
}

// Setting is a variable whose values are of type T.
type Setting[T any] struct {
	*Variable
	unset T
	parse func(text string) (value T, legal bool)
}

// Value returns what this process's environment says, or what counts where it says nothing. An
// error names the variable, its value, and what is legal.
func (s Setting[T]) Value() (T, error) {
	if text := s.Text(); text != "" {
		return s.Parse(text)
	}
	return s.unset, nil
}

// Parse reads a value. Errors as those of Value.
func (s Setting[T]) Parse(text string) (T, error) {
	value, legal := s.parse(text)
	if !legal {
		return s.unset, fmt.Errorf("%s=%q; legal: %s (%s)", s.Name, text, strings.ReplaceAll(s.Values, "`", ""), s.Meaning)
	}
	return value, nil
}

// declare adds a row to the table.
func declare[T any](v Variable, unset T, show func(T) string, parse func(text string) (T, bool)) Setting[T] {
	s := Setting[T]{&v, unset, parse}
	v.Check = func(text string) error {
		_, err := s.Parse(text)
		return err
	}
	v.Standard = func() string { return show(unset) }
	Table = append(Table, &v)
	return s
}

// number is a setting from least to most.
func number(least, most, unset int, v Variable) Setting[int] {
	switch {
	case v.Values != "":
	case most == math.MaxInt:
		v.Values = fmt.Sprintf("%d or more", least)
	case most == least+1:
		v.Values = fmt.Sprintf("%d, %d", least, most)
	default:
		v.Values = fmt.Sprintf("%d to %d", least, most)
	}
	return declare(v, unset, strconv.Itoa, func(text string) (int, bool) {
		n, err := strconv.Atoi(text)
		return n, err == nil && n >= least && n <= most
	})
}

// duration is a time from least to most, or, if that is legal, 0.
func duration(least, most, unset time.Duration, v Variable) Setting[time.Duration] {
	return declare(v, unset, func(d time.Duration) string { return d.String() }, func(text string) (time.Duration, bool) {
		d, err := time.ParseDuration(text)
		return d, err == nil && (d >= least && d <= most || d == 0 && unset == 0)
	})
}

// list is one or more of some names, separated by commas, none of them twice.
func list(names []string, v Variable) Setting[[]string] {
	v.Values = "`" + strings.Join(names, "`, `") + "`, or several, separated by commas"
	return declare(v, nil, func([]string) string { return "all" }, func(text string) ([]string, bool) {
		l := strings.Split(text, ",")
		for i, name := range l {
			if !slices.Contains(names, name) || slices.Contains(l[:i], name) {
				return nil, false
			}
		}
		return l, true
	})
}

// text is a setting that its owner reads.
func text(v Variable) *Variable {
	v.Standard = func() string { return "-" }
	Table = append(Table, &v)
	return &v
}
