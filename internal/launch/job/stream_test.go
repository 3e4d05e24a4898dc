// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pieces is an output that keeps what is written to it, call by call, until it fails.
type pieces struct {
	list  []string
	fails int // from this call on; 0: never
	calls int
}

var errFull = errors.New("full")

func (p *pieces) Write(b []byte) (int, error) {
	if p.calls++; p.fails > 0 && p.calls >= p.fails {
		return 0, errFull
	}
	p.list = append(p.list, string(b))
	return len(b), nil
}

// A stream writes whole lines, each at once; pieces of MaxLine of a longer line; and the rest at
// its end.
func TestPiecesOfAStream(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for name, row := range map[string]struct {
		label  string
		writes []string
		want   []string
	}{
		"nothing":                {"", nil, nil},
		"nothing, labelled":      {"[0]", nil, nil},
		"a line in pieces":       {"", []string{"ab", "cd\n"}, []string{"abcd\n"}},
		"no newline":             {"", []string{"ab", "cd"}, []string{"abcd"}},
		"no newline, labelled":   {"[0]", []string{"ab", "cd"}, []string{"[0] abcd", "\n"}},
		"rest behind a newline":  {"", []string{"a\nb"}, []string{"a\n", "b"}},
		"lines together":         {"[0]", []string{"a\nb\nc"}, []string{"[0] a\n[0] b\n", "[0] c", "\n"}},
		"as long as can be":      {"", []string{x(MaxLine - 1), "\n"}, []string{x(MaxLine-1) + "\n"}},
		"longer by one":          {"", []string{x(MaxLine), "\n"}, []string{x(MaxLine), "\n"}},
		"longer, labelled":       {"[0]", []string{x(MaxLine), "y\n"}, []string{"[0] " + x(MaxLine), "y\n"}},
		"a long one and another": {"", []string{x(2*MaxLine + 5), "\n", "z"}, []string{x(MaxLine), x(MaxLine), x(5) + "\n", "z"}},
	} {
		t.Run(name, func(t *testing.T) {
			rd, wr, err := os.Pipe()
			require.NoError(t, err)
			out := &pieces{}
			s := &stream{sink: newSinks(out, out, nil)[0], label: row.label, r: rd}
			done := make(chan struct{})
			go func() { s.copy(); close(done) }()
			for _, w := range row.writes {
				_, err := wr.WriteString(w)
				require.NoError(t, err)
			}
			require.NoError(t, wr.Close())
			<-done
			require.True(t, len(row.want) == 0 && len(out.list) == 0 || strings.Join(row.want, "|") == strings.Join(out.list, "|"), "%.100q", out.list)
			_, err = rd.Read(make([]byte, 1))
			require.ErrorIs(t, err, os.ErrClosed)
		})
	}
}

// A drained stream passes on what is in its pipe, and does not wait for processes that could still
// write.
func TestDrainedStream(t *testing.T) {
	for _, first := range []bool{false, true} {
		rd, wr, err := os.Pipe()
		require.NoError(t, err)
		out := &pieces{}
		s := &stream{sink: newSinks(out, out, nil)[0], r: rd}
		_, err = wr.WriteString("last\nwords")
		require.NoError(t, err)
		if first {
			s.drain()
		}
		done := make(chan struct{})
		go func() { s.copy(); close(done) }()
		if !first {
			s.drain()
		}
		<-done
		require.Equal(t, "last\nwords", strings.Join(out.list, ""))
		require.NoError(t, wr.Close())
	}
}

// An output that fails is given up: the failure is reported once, each stream hears of it, and
// nothing more is written.
func TestBrokenSink(t *testing.T) {
	for fails := 1; fails <= 3; fails++ {
		out := &pieces{fails: fails}
		var told []error
		k := newSinks(out, out, func(k *sink, err error) { told = append(told, err) })[0]
		a, b := &stream{sink: k}, &stream{sink: k, label: "[1]"}
		for i := range 3 {
			require.Equal(t, i+1 < fails, a.emit([]byte("a\n")), "%d of %d", i, fails)
		}
		require.Equal(t, []error{errFull}, told)
		require.False(t, b.emit([]byte("b")))
		require.False(t, b.emit(nil))
		b.finish()
		k.say("%s", "c")
		require.Equal(t, fails, out.calls)
		require.Equal(t, strings.Repeat("a\n", fails-1), strings.Join(out.list, ""))
	}
	// A stream whose sink is broken ends, so that its rank notices.
	rd, wr, err := os.Pipe()
	require.NoError(t, err)
	out := &pieces{fails: 1}
	s := &stream{sink: newSinks(out, out, func(*sink, error) {})[0], r: rd}
	done := make(chan struct{})
	go func() { s.copy(); close(done) }()
	_, err = wr.WriteString("line\n")
	require.NoError(t, err)
	<-done
	_, err = wr.WriteString("line\n")
	require.Error(t, err)
	require.NoError(t, wr.Close())
	rd, wr, err = os.Pipe()
	require.NoError(t, err)
	s = &stream{sink: s.sink, r: rd}
	done = make(chan struct{})
	go func() { s.copy(); close(done) }()
	_, _ = wr.WriteString(strings.Repeat("x", MaxLine)) // no line
	<-done
	require.NoError(t, wr.Close())
}

// Unfinished lines of several streams, and the launcher's messages between them.
func TestLinesOfSeveralStreams(t *testing.T) {
	type write struct {
		from int // a stream; -1: the launcher
		text string
	}
	for _, row := range []struct {
		labels []string
		writes []write
		want   string
	}{
		{[]string{"", ""}, []write{{0, "a"}, {0, "b"}, {1, "c\n"}, {0, "d\n"}}, "ab\nc\nd\n"},
		{[]string{"", ""}, []write{{0, "a"}, {-1, "x"}, {-1, "y"}, {0, "b"}}, "a\nweft run: x\nweft run: y\nb"},
		{[]string{"", ""}, []write{{0, "a\n"}, {-1, "x"}, {1, "b\n"}}, "a\nweft run: x\nb\n"},
		{[]string{"0", "1"}, []write{{0, "a"}, {0, "b\nc"}, {0, "d"}}, "0 ab\n0 cd"},
		{[]string{"0", "1"}, []write{{0, "a"}, {1, "b"}, {0, "c"}, {1, "d\ne\n"}, {0, "f\n"}}, "0 a\n1 b\n0+ c\n1+ d\n1 e\n0+ f\n"},
		{[]string{"0", "1"}, []write{{0, "a"}, {-1, "x"}, {0, "b"}, {0, "c\n"}}, "0 a\nweft run: x\n0+ bc\n"},
		{[]string{"0", "1"}, []write{{0, "a"}, {1, "b\n"}, {0, "\n"}, {0, "c\n"}}, "0 a\n1 b\n0+ \n0 c\n"},
	} {
		var b bytes.Buffer
		list := sinkOf(&b, row.labels...)
		for _, w := range row.writes {
			if w.from < 0 {
				list[0].sink.say("%s", w.text)
			} else {
				require.True(t, list[w.from].emit([]byte(w.text)))
			}
		}
		require.Equal(t, row.want, b.String())
	}
}

// Standard output and standard error are one sink if they are one file.
func TestOneFileIsOneSink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	a, err := os.Create(path)
	require.NoError(t, err)
	defer a.Close()
	b, err := os.Open(path)
	require.NoError(t, err)
	defer b.Close()
	c, err := os.Create(path + "2")
	require.NoError(t, err)
	defer c.Close()
	gone, err := os.Create(path + "3")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	x, y := &bytes.Buffer{}, &bytes.Buffer{}
	for _, row := range []struct {
		a, b io.Writer
		same bool
	}{{a, a, true}, {a, b, true}, {b, a, true}, {a, c, false}, {x, x, true}, {x, y, false}, {a, x, false}, {x, a, false}, {gone, a, false}, {a, gone, false}} {
		require.Equal(t, row.same, sameFile(row.a, row.b))
		var told []*sink
		sinks := newSinks(row.a, row.b, func(k *sink, _ error) { told = append(told, k) })
		require.Equal(t, row.same, sinks[0] == sinks[1])
		sinks[0].broken(sinks[0], nil)
		sinks[1].broken(sinks[1], nil)
		require.Same(t, sinks[0], told[0])
		require.Same(t, sinks[1], told[1])
	}
}

// The content of the pipe is read even if the reader gets no processor before the deadline.
func TestDrainIsLate(t *testing.T) {
	defer func(d time.Duration) { drainIdle = d }(drainIdle)
	drainIdle = -time.Second // each deadline is over when it is set
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close() // a process that has left its group has it open
	var out bytes.Buffer
	s := &stream{sink: &sink{w: &out}, r: r}
	want := strings.Repeat("a line\n", 2000) + "no line"
	_, err = w.WriteString(want)
	require.NoError(t, err)
	s.drain()
	s.copy()
	require.Equal(t, want, out.String())
}
