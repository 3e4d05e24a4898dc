// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Lines stay whole, whatever the pieces in which a rank writes them, and nothing is lost.
func TestLinesStayWhole(t *testing.T) {
	for _, label := range []bool{false, true} {
		for _, row := range []struct{ lines, length, piece int }{{300, 3, 1}, {200, 1000, 333}, {40, MaxLine - 20, 4096}} {
			const ranks = 3
			o := run(t, Spec{Label: label, Parts: []Part{role("bytes", ranks, fmt.Sprint(row.lines), fmt.Sprint(row.length), fmt.Sprint(row.piece))}})
			require.Zero(t, o.status, o.errOut)
			next := [ranks]int{}
			for _, l := range o.lines() {
				var rank, i, shown int
				if label {
					_, err := fmt.Sscanf(l, "[%d] ", &shown)
					require.NoError(t, err)
					l = l[4:]
				}
				_, err := fmt.Sscanf(l, "%d:%d:", &rank, &i)
				require.NoError(t, err)
				require.Equal(t, next[rank], i)
				require.Equal(t, fmt.Sprintf("%d:%d:%s", rank, i, strings.Repeat("x", row.length)), l)
				if label {
					require.Equal(t, rank, shown)
				}
				next[rank]++
			}
			require.Equal(t, [ranks]int{row.lines, row.lines, row.lines}, next)
		}
	}
}

// Nothing is lost of lines that are too long to be kept whole. Those of a single rank come out
// unchanged.
func TestLongLines(t *testing.T) {
	const length = 5 * MaxLine
	o := run(t, Spec{Parts: []Part{role("bytes", 1, "20", fmt.Sprint(length), "100000")}})
	require.Zero(t, o.status)
	for i, l := range o.lines() {
		require.Equal(t, fmt.Sprintf("0:%d:", i)+strings.Repeat("x", length), l)
	}
	o = run(t, Spec{Label: true, Parts: []Part{role("bytes", 2, "20", fmt.Sprint(length), "100000")}})
	require.Zero(t, o.status)
	joined := [2]string{}
	for _, l := range o.lines() {
		rank := l[1] - '0'
		text, more := strings.CutPrefix(l[3:], "+ ")
		if !more {
			text = "\n" + l[4:]
		}
		joined[rank] += text
	}
	for r, got := range joined {
		want := ""
		for i := range 20 {
			want += fmt.Sprintf("\n%d:%d:", r, i) + strings.Repeat("x", length)
		}
		require.True(t, want == got, "rank %d: %d bytes, not %d", r, len(got), len(want))
	}
}

// sinkOf returns a sink and streams without processes.
func sinkOf(w *bytes.Buffer, labels ...string) []*stream {
	k := newSinks(w, w, func(*sink, error) {})[0]
	var list []*stream
	for _, l := range labels {
		list = append(list, &stream{sink: k, label: l})
	}
	return list
}

func TestUnfinishedLines(t *testing.T) {
	var b bytes.Buffer
	s := sinkOf(&b, "[0]", "[1]")
	s[0].emit([]byte("be"))
	s[0].emit([]byte("gin"))
	s[1].emit([]byte("one\ntwo"))
	s[0].emit([]byte(" end\nnext\n"))
	s[1].emit([]byte(" more"))
	s[1].finish()
	s[0].finish()
	require.Equal(t, "[0] begin\n[1] one\n[1] two\n[0]+  end\n[0] next\n[1]+  more\n", b.String())

	b.Reset()
	s = sinkOf(&b, "", "")
	s[0].emit([]byte("be"))
	s[0].emit([]byte("gin"))
	s[1].emit([]byte("one\ntwo"))
	s[1].finish()
	s[0].emit(nil)
	require.Equal(t, "begin\none\ntwo", b.String(), "without labels, a newline is added between ranks only")
	s[0].sink.say("%s", "hello")
	require.Equal(t, "begin\none\ntwo\nweft run: hello\n", b.String())
}

func TestOutputWithoutNewline(t *testing.T) {
	require.Equal(t, "hi", run(t, Spec{Parts: []Part{shell(1, "printf hi")}}).out)
	require.Equal(t, "hi\nhi", run(t, Spec{Parts: []Part{shell(2, "printf hi")}}).out)
	require.Equal(t, "[0] hi\n", run(t, Spec{Label: true, Parts: []Part{shell(1, "printf hi")}}).out)
	require.Empty(t, run(t, Spec{Label: true, Parts: []Part{shell(1, ":")}}).out)
}

func TestStandardErrorIsApart(t *testing.T) {
	o := run(t, Spec{Label: true, Parts: []Part{shell(1, "echo out; echo err >&2")}})
	require.Equal(t, "[0] out\n", o.out)
	require.Equal(t, "[0] err\n", o.errOut)
}

func TestLabelsAreAligned(t *testing.T) {
	o := run(t, Spec{Label: true, Parts: []Part{shell(11, "echo x")}})
	require.Contains(t, o.out, "[ 3] x\n")
	require.Contains(t, o.out, "[10] x\n")
}

func TestOutputFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	o := run(t, Spec{OutputDir: dir, Parts: []Part{shell(2, "echo out $WEFT_RANK; echo err $WEFT_RANK >&2")}})
	require.Zero(t, o.status)
	require.Empty(t, o.out+o.errOut)
	for file, want := range map[string]string{"rank.0.out": "out 0\n", "rank.1.out": "out 1\n", "rank.0.err": "err 0\n", "rank.1.err": "err 1\n"} {
		got, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

// failing is an output that accepts some bytes and then fails.
type failing struct {
	left int
	err  error
}

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, f.err
	}
	return len(b), nil
}

func TestOutputThatFails(t *testing.T) {
	o := run(t, Spec{Stdout: &failing{1000, errors.New("the disk is full")}, Parts: []Part{shell(2, "while :; do echo line; done")}})
	require.Equal(t, StatusFailure, o.status)
	require.Contains(t, o.errOut, "output cannot be written: the disk is full")
}

// If the reader of the output ends, the ranks notice as they would at a pipe, and the launcher
// reports nothing.
func TestClosedPipe(t *testing.T) {
	rd, wr, err := os.Pipe()
	require.NoError(t, err)
	defer wr.Close()
	go func() {
		b := make([]byte, 10)
		_, _ = rd.Read(b)
		_ = rd.Close()
	}()
	o := run(t, Spec{Stdout: wr, Parts: []Part{{Ranks: 3, Program: "yes"}}})
	require.Equal(t, 128+13, o.status, o.errOut)
	require.Empty(t, o.errOut)
}
