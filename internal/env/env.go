// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package env reads the environment of the process. It has the table of weft's variables, parses
// them, and finds unknown names in an environment:
//
//	n, err := env.Workers.Value()  // the environment's value, or the default
//	env.Warn(logger, os.Stderr)    // about unknown names, once per job: by task.New and comm.Main
//
// No other package of the library reads the environment; a test of the repository checks that. A
// new variable is a row in table.go, from which "weft info" and the tables of docs/environment.md
// are made. Where only another package can check a value or knows the default, that package's init
// sets the row's Check and Standard.
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

// Get returns any variable of this process's environment, weft's or another program's; "" if it is
// not set.
func Get(name string) string { return os.Getenv(name) }

// All returns the environment of this process, for a process that it starts.
func All() []string { return os.Environ() }

// Variable is an environment variable of weft.
type Variable struct {
	Name    string
	Values  string // the legal values, in Markdown
	Default string // the value if it is not set, in Markdown; empty: none
	Meaning string // a line for "weft info"
	More    string // the text of docs/environment.md, in Markdown; empty: Meaning
	Reader  string // the functions that read it, in Markdown
	Set     bool   // a launcher sets it, and users should not

	// Check returns what is wrong with a value. It may read other variables. nil: all values are
	// legal.
	Check func(text string) error
	// Standard returns the value if the variable is not set, for "weft info".
	Standard func() string
}

// Table has all variables, in the order of "weft info".
var Table []*Variable

// Text returns the variable's value in this process; "" if it is not set.
func (v *Variable) Text() string { return Get(v.Name) }

// Problem returns what is wrong with the variable's value in this process; nil if nothing is.
func (v *Variable) Problem() error {
	if text := v.Text(); text != "" && v.Check != nil {
		return v.Check(text)
	}
	return nil
}

// Setting is a variable with values of type T.
type Setting[T any] struct {
	*Variable
	unset T
	parse func(text string) (value T, legal bool)
}

// Value returns the value in this process's environment, or the default if the variable is not set.
// An error names the variable, its value, and the legal values.
func (s Setting[T]) Value() (T, error) {
	if text := s.Text(); text != "" {
		return s.Parse(text)
	}
	return s.unset, nil
}

// Parse parses a value. Its errors are those of Value.
func (s Setting[T]) Parse(text string) (T, error) {
	value, legal := s.parse(text)
	if !legal {
		return s.unset, fmt.Errorf("%s=%q; legal: %s (%s)", s.Name, text, strings.ReplaceAll(s.Values, "`", ""), s.Meaning)
	}
	return value, nil
}

// declare adds a row to the table; show prints the default.
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

// number declares an integer from least to most.
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

// duration declares a time from least to most, or 0 if unset is 0.
func duration(least, most, unset time.Duration, v Variable) Setting[time.Duration] {
	return declare(v, unset, func(d time.Duration) string { return d.String() }, func(text string) (time.Duration, bool) {
		d, err := time.ParseDuration(text)
		return d, err == nil && (d >= least && d <= most || d == 0 && unset == 0)
	})
}

// list declares one or more of some names, separated by commas, none of them twice.
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

// text declares a variable that another package parses.
func text(v Variable) *Variable {
	v.Standard = func() string { return "-" }
	Table = append(Table, &v)
	return &v
}
