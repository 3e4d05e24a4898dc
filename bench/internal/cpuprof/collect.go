// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package cpuprof collects one CPU profile of many short stretches of a program, and prints where
// the time went.
//
//	var c cpuprof.Collector
//	c.Around(sample)                     // as often as wanted; also c.Add(file) for a child process's profile
//	prof, err := c.Profile()
//	cpuprof.Top(os.Stdout, prof, 20)
//
// The runtime can profile only one stretch at a time into one file, so each stretch is a profile of
// its own, and they are merged. Not safe for concurrent use; Around blocks for as long as the
// function runs, and some tenths of a second for the profiler to stop.
package cpuprof

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"

	"github.com/google/pprof/profile"
)

// ErrEmpty says that no stretch was profiled.
var ErrEmpty = errors.New("cpuprof: nothing was profiled")

// A Collector gathers profiles. The zero value is ready.
type Collector struct {
	parts []*profile.Profile
	err   error // the first problem; the program that is profiled goes on
}

// Around calls f with the CPU profiler on.
func (c *Collector) Around(f func()) {
	var buf bytes.Buffer
	if err := pprof.StartCPUProfile(&buf); err != nil {
		c.fail(err)
		f()
		return
	}
	f()
	pprof.StopCPUProfile()
	c.parse(&buf)
}

// Add reads the profile that another process has left in the named file.
func (c *Collector) Add(name string) {
	data, err := os.ReadFile(name)
	if err != nil {
		c.fail(err)
		return
	}
	c.parse(bytes.NewBuffer(data))
}

func (c *Collector) parse(buf *bytes.Buffer) {
	p, err := profile.Parse(buf)
	if err != nil {
		c.fail(err)
		return
	}
	if len(p.Sample) > 0 {
		// a stretch of under ten milliseconds may have none, and Merge wants types that agree
		c.parts = append(c.parts, p)
	}
}

func (c *Collector) fail(err error) {
	if c.err == nil {
		c.err = fmt.Errorf("cpuprof: %w", err)
	}
}

// Profile returns everything collected so far as one profile.
func (c *Collector) Profile() (*profile.Profile, error) {
	if c.err != nil {
		return nil, c.err
	}
	if len(c.parts) == 0 {
		return nil, ErrEmpty
	}
	p, err := profile.Merge(c.parts)
	if err != nil {
		return nil, fmt.Errorf("cpuprof: %w", err)
	}
	return p, nil
}
