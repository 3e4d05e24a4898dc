// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// entry is an element of traceEvents.
type entry struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat,omitempty"`
	Phase string         `json:"ph"`
	Time  micros         `json:"ts"`
	Dur   *micros        `json:"dur,omitempty"`
	Pid   int            `json:"pid"`
	Tid   int            `json:"tid"`
	ID    string         `json:"id,omitempty"`
	Bind  string         `json:"bp,omitempty"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// micros is a time in nanoseconds, written in microseconds, as the format has them.
type micros int64

// MarshalJSON writes microseconds with three decimals.
func (m micros) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%03d", m/1000, m%1000), nil
}

// emitter writes the elements, or hands them to take.
type emitter struct {
	take func(*entry) // nil: they are written

	w   *bufio.Writer
	n   int
	err error
}

func newEmitter(w io.Writer) *emitter {
	e := &emitter{w: bufio.NewWriterSize(w, 1<<16)}
	e.text(`{"displayTimeUnit":"ns","traceEvents":[`)
	return e
}

func (e *emitter) text(s string) {
	if e.err == nil {
		_, e.err = e.w.WriteString(s)
	}
}

func (e *emitter) put(x *entry) {
	if e.take != nil {
		e.take(x)
		return
	}
	b, err := json.Marshal(x)
	if err != nil {
		panic(fmt.Sprintf("timeline: bug: %v", err))
	}
	if e.n++; e.n > 1 {
		e.text(",")
	}
	e.text("\n")
	e.text(string(b))
}

// end writes what comes after the elements.
func (e *emitter) end(other map[string]any) error {
	b, err := json.Marshal(other)
	if err != nil {
		panic(fmt.Sprintf("timeline: bug: %v", err))
	}
	e.text("\n],\"otherData\":")
	e.text(string(b))
	e.text("}\n")
	if e.err == nil {
		e.err = e.w.Flush()
	}
	return e.err
}
