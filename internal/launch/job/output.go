// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// MaxLine is the length in bytes up to which a line is kept whole.
const MaxLine = 64 << 10

// drainIdle is how long a read waits for output after the last process of the ranks' groups has
// ended. What these processes wrote is in the pipe already. Only a process that has left its group
// can write more, and the launcher does not wait for such a process. Tests change it.
var drainIdle = 100 * time.Millisecond

// sink receives the output of all ranks: the launcher's standard output or standard error.
type sink struct {
	w io.Writer // constant

	mu sync.Mutex

	last    *stream // guarded by mu: the stream that wrote last
	open    bool    // guarded by mu: the last write did not end a line
	scratch []byte  // guarded by mu: labelled lines
	err     error   // guarded by mu: why nothing more can be written

	broken func(*sink, error) // constant: called once, when err is set
}

// stream is the output of one rank through one descriptor.
type stream struct {
	// Constant after construction.
	sink  *sink
	label string // before each line; "": none
	r     *os.File

	middle   bool // guarded by sink.mu: a line of this stream is unfinished
	draining atomic.Bool
}

// copy passes the stream's output on until its end.
func (s *stream) copy() {
	defer s.r.Close()
	buf := make([]byte, 0, 8<<10)
	for {
		switch {
		case len(buf) < cap(buf):
		case cap(buf) < MaxLine:
			buf = append(make([]byte, 0, min(2*cap(buf), MaxLine)), buf...)
		case !s.emit(buf):
			return
		default:
			buf = buf[:0]
		}
		n, err := s.read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if i := bytes.LastIndexByte(buf[len(buf)-n:], '\n'); i >= 0 {
			i += len(buf) - n + 1
			if !s.emit(buf[:i]) {
				return
			}
			buf = buf[:copy(buf, buf[i:])]
		}
		if err != nil {
			s.emit(buf)
			s.finish()
			return
		}
	}
}

// read reads from the pipe. While the stream is drained, each read has a fresh deadline, so that
// all of the pipe's content is read, however long the writes before have taken.
func (s *stream) read(b []byte) (int, error) {
	for {
		fresh := s.draining.Load()
		if fresh {
			_ = s.r.SetReadDeadline(time.Now().Add(drainIdle))
		}
		n, err := s.r.Read(b)
		switch {
		case n > 0 || err == nil || !errors.Is(err, os.ErrDeadlineExceeded):
			return n, err
		case fresh:
			// A goroutine that gets no processor before the deadline has not read the pipe.
			if n = readNow(s.r, b); n > 0 {
				err = nil
			}
			return n, err
		}
	}
}

// drain tells the stream that all processes that should write to it have ended.
func (s *stream) drain() {
	s.draining.Store(true)
	_ = s.r.SetReadDeadline(time.Now().Add(drainIdle))
}

// emit writes lines, or a piece of one line. It returns false if the sink is broken.
func (s *stream) emit(b []byte) bool {
	k := s.sink
	k.mu.Lock()
	if k.err == nil && len(b) > 0 {
		if k.open && k.last != s {
			k.put([]byte{'\n'}) // another stream's unfinished line
			k.open = false
		}
		if s.label != "" {
			b = s.labelled(b)
		}
		k.put(b)
		k.last, k.open = s, b[len(b)-1] != '\n'
		s.middle = k.open
	}
	err := k.err
	k.mu.Unlock()
	return err == nil
}

// labelled puts the label before each line. The rest of a line that was interrupted has a plus sign
// after the label.
// +checklocks:s.sink.mu
func (s *stream) labelled(b []byte) []byte {
	out := s.sink.scratch[:0]
	first := true
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n') + 1
		if i == 0 {
			i = len(b)
		}
		switch {
		case first && s.middle && s.sink.open: // the line goes on where it stopped
		case first && s.middle:
			out = append(append(out, s.label...), "+ "...)
		default:
			out = append(append(out, s.label...), ' ')
		}
		out = append(out, b[:i]...)
		b, first = b[i:], false
	}
	s.sink.scratch = out
	return out
}

// finish ends a labelled stream's last line.
func (s *stream) finish() {
	k := s.sink
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.label != "" && k.open && k.last == s && k.err == nil {
		k.put([]byte{'\n'})
		k.open = false
	}
}

// put writes.
// +checklocks:k.mu
func (k *sink) put(b []byte) {
	if k.err != nil {
		return
	}
	if _, err := k.w.Write(b); err != nil {
		k.err = err
		k.broken(k, err)
	}
}

// say writes a line of the launcher itself.
func (k *sink) say(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open {
		k.put([]byte{'\n'})
		k.open, k.last = false, nil
	}
	k.put([]byte(fmt.Sprintf("weft run: "+format+"\n", args...)))
}

// newSinks returns the sinks for standard output and standard error: the same one if both are the
// same file.
func newSinks(stdout, stderr io.Writer, broken func(*sink, error)) [2]*sink {
	out := &sink{w: stdout, broken: broken}
	if sameFile(stdout, stderr) {
		return [2]*sink{out, out}
	}
	return [2]*sink{out, {w: stderr, broken: broken}}
}

func sameFile(a, b io.Writer) bool {
	f, ok := a.(*os.File)
	g, ok2 := b.(*os.File)
	if !ok || !ok2 {
		return a == b
	}
	s, err := f.Stat()
	t, err2 := g.Stat()
	return err == nil && err2 == nil && os.SameFile(s, t)
}
