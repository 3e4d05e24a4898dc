// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
)

var rewrite = flag.Bool("rewrite", false, "write the golden scripts' output instead of checking it")

// TestScripts runs the scripts of testdata. A script is a list of blocks:
// commands, a line "----", and the output expected, up to an empty line. Lines that
// begin with # are comments. Each script begins with an empty world; commands are
//
//	reset                        an empty world again
//	spawn NAME [ACCESS...]       NAME is its parent's, a dot and a word, or a word: the root's child
//	release NAME ACCESS          the body gives an access up
//	end NAME...                  the bodies end (root: the root's)
//	freed                        the tasks whose memory may be reused
//
// An ACCESS is in(x), out(x), inout(x), concurrent(x), commutative(x), reduce(x), or with weak
// before it; x is any word, or word[lo:hi] for many objects. zero is the zero Access. A task that
// may start runs at once. Each command prints what it started; each block ends with a line of what
// runs and what waits.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			got := runScript(t, string(raw))
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(raw), got)
		})
	}
}

// runScript returns the script with the output that it produces.
func runScript(t *testing.T, text string) string {
	var out strings.Builder
	s := newScript(t)
	var answer []string
	inOutput := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case inOutput && line != "":
			continue // the old output
		case inOutput:
			inOutput = false
			out.WriteString("\n")
		case line == "----":
			inOutput = true
			out.WriteString("----\n" + strings.Join(answer, "") + s.summary())
			answer = nil
		default:
			out.WriteString(line + "\n")
			if f := strings.Fields(line); len(f) > 0 && f[0] != "#" {
				answer = append(answer, s.do(f))
			}
		}
	}
	require.Empty(t, answer, "the script ends without ----")
	s.reset()
	return out.String()
}

type script struct {
	t     *testing.T
	w     *world
	tasks map[string]*wtask
}

const scriptObjects = 4096

func newScript(t *testing.T) *script {
	s := &script{t: t}
	s.reset()
	return s
}

// reset ends the current program, which gives its objects back, and starts an empty one.
func (s *script) reset() {
	if s.w != nil {
		s.w.finish(func(int) int { return 0 })
		require.NoError(s.t, s.w.err)
		require.Zero(s.t, chain.Resources(), "objects are still held")
	}
	s.w = newWorld(scriptObjects)
	s.tasks = map[string]*wtask{"root": s.w.root}
}

func (s *script) task(name string) *wtask {
	t := s.tasks[name]
	require.NotNil(s.t, t, "no task %q", name)
	return t
}

// do carries out a command and returns what it prints.
func (s *script) do(f []string) string {
	var b strings.Builder
	switch cmd, args := f[0], f[1:]; cmd {
	case "reset":
		s.reset()
	case "spawn":
		parent := s.w.root
		if i := strings.LastIndexByte(args[0], '.'); i > 0 {
			parent = s.task(args[0][:i])
		}
		require.Equal(s.t, running, parent.state, "%s does not run", parent.name)
		require.Nil(s.t, s.tasks[args[0]], "two tasks %q", args[0])
		task, refused := s.w.spawn(parent, args[0], s.decls(args[1:]))
		if refused != nil {
			b.WriteString("panic: " + s.readable(fmt.Sprint(refused)) + "\n")
		} else {
			s.tasks[args[0]] = task
		}
		s.report(&b)
	case "release":
		task := s.task(args[0])
		require.Equal(s.t, running, task.state, "%s does not run", task.name)
		if err := s.w.release(task, s.decls(args[1:])[0]); err != nil {
			b.WriteString("error: " + s.readable(err.Error()) + "\n")
		}
		s.report(&b)
	case "end":
		for _, name := range args {
			require.Equal(s.t, running, s.task(name).state, "%s does not run", name)
			s.w.end(s.task(name))
			s.report(&b)
		}
	case "freed":
		b.WriteString("freed:" + names(s.w.in(free)) + "\n")
	default:
		require.Fail(s.t, "unknown command", cmd)
	}
	require.NoError(s.t, s.w.err)
	return b.String()
}

func (s *script) report(b *strings.Builder) {
	// One step may start several tasks in any order: the order of the table of objects.
	slices.SortFunc(s.w.started, func(x, y *wtask) int { return x.id - y.id })
	for _, t := range s.w.started {
		b.WriteString("start " + t.name + "\n")
	}
	s.w.started = s.w.started[:0]
}

func (s *script) summary() string {
	return "running:" + names(s.w.in(running)) + "; waiting:" + names(s.w.in(waiting)) + "\n"
}

func names(list []*wtask) string {
	if len(list) == 0 {
		return " -"
	}
	var b strings.Builder
	for _, t := range list {
		b.WriteString(" " + t.name)
	}
	return b.String()
}

var (
	accessForm  = regexp.MustCompile(`^(weak)?(inout|in|out|concurrent|commutative|reduce)\((\w+)(?:\[(\d+):(\d+)\])?\)$`)
	addressForm = regexp.MustCompile(`0x[0-9a-f]+`)
	modes       = map[string]chain.Mode{"in": chain.ModeIn, "out": chain.ModeOut, "inout": chain.ModeInOut, "concurrent": chain.ModeConcurrent, "commutative": chain.ModeCommutative, "reduce": chain.ModeReduce}
)

func (s *script) decls(args []string) []decl {
	var list []decl
	for _, a := range args {
		if a == "zero" {
			list = append(list, decl{obj: -1})
			continue
		}
		m := accessForm.FindStringSubmatch(a)
		require.NotNil(s.t, m, "not an access: %q", a)
		d := decl{mode: modes[m[2]], weak: m[1] != ""}
		if m[4] == "" {
			d.obj = s.object(m[3])
			list = append(list, d)
			continue
		}
		lo, _ := strconv.Atoi(m[4])
		hi, _ := strconv.Atoi(m[5])
		for i := lo; i < hi; i++ {
			d.obj = s.object(fmt.Sprintf("%s[%d]", m[3], i))
			list = append(list, d)
		}
	}
	return list
}

func (s *script) object(name string) int {
	i, ok := s.w.index[name]
	if !ok {
		i = len(s.w.names)
		s.w.index[name] = i
		s.w.names = append(s.w.names, name)
	}
	return i
}

// readable replaces the addresses in a message by the objects' names.
func (s *script) readable(msg string) string {
	return addressForm.ReplaceAllStringFunc(msg, func(p string) string {
		for i, name := range s.w.names {
			if fmt.Sprintf("%p", &s.w.objs[i]) == p {
				return "&" + name
			}
		}
		return p
	})
}
