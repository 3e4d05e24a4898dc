// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package cpuprof collects one CPU profile of many short stretches of a program, and prints where
// the time went.
//
//	var c cpuprof.Collector
//	c.Around(sample)                     // any number of times; c.Add(file) for a child process
//	prof, err := c.Profile()
//	cpuprof.Top(os.Stdout, prof, 20)
//
// The runtime can profile only one stretch at a time into one file. So each stretch has its own
// profile, and Profile merges them. Not safe for concurrent use. Around blocks while the function
// runs, and then some tenths of a second until the profiler stops.
package cpuprof

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"

	"github.com/google/pprof/profile"
)

// ErrEmpty is the error of Profile if nothing was profiled.
var ErrEmpty = errors.New("cpuprof: nothing was profiled")

// A Collector gathers profiles. The zero value is ready.
type Collector struct {
	parts []*profile.Profile
	err   error // the first error; the profiled program goes on
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
		// a stretch of less than ten milliseconds may have no sample, and Merge needs equal types
		c.parts = append(c.parts, p)
	}
}

func (c *Collector) fail(err error) {
	if c.err == nil {
		c.err = fmt.Errorf("cpuprof: %w", err)
	}
}

// Profile returns the merged profile of everything collected so far.
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
