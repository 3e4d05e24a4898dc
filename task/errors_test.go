// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/internal/env"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// golden compares text with a file, after addresses, line numbers and paths are replaced.
func golden(t *testing.T, name, text string) {
	t.Helper()
	for _, r := range []struct{ re, by string }{
		{`/[^ :()]*/task/`, "task/"},
		{`\.go:\d+`, ".go:N"},
		{`0x[0-9a-f]+`, "0xADDR"},
		{`(task\.Test\w+)\.[\w.]+`, "$1.func"},
	} {
		text = regexp.MustCompile(r.re).ReplaceAllString(text, r.by)
	}
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

func failingBody(*Task) error { return errors.New("no such file") }

type withMethod struct{}

func (withMethod) body(*Task) error { return errors.New("from a method") }

// The texts of all errors and panics.
func TestErrorTexts(t *testing.T) {
	skipInLintMode(t, "the texts are those without the lines of spawns, which it includes")
	t.Setenv("WEFT_WORKERS", "")
	t.Setenv("WEFT_WINDOW", "")
	rt := newTestRuntime(t, Config{Workers: 1})
	traced := newTestRuntime(t, Config{Workers: 1, TraceSpawns: true})
	var b strings.Builder
	line := func(what string, v any) {
		text, _, _ := strings.Cut(fmt.Sprint(v), "\n") // the stack differs
		fmt.Fprintf(&b, "%s:\n\t%s\n", what, text)
	}
	run := func(rt *Runtime, main func(*Task) error) error { return rt.Run(bg, main) }

	line("error of a labelled task", run(rt, func(t *Task) error {
		t.SpawnWith(Attrs{Label: "read"}, failingBody)
		return nil
	}))
	line("error of a task", run(rt, func(t *Task) error { t.Spawn(failingBody); return nil }))
	line("error of a function literal", run(rt, func(t *Task) error {
		t.Spawn(func(*Task) error { return errors.New("out of paper") })
		return nil
	}))
	line("error of a method value", run(rt, func(t *Task) error { t.Spawn(withMethod{}.body); return nil }))
	line("error of the main task", run(rt, failingBody))
	line("spawn traced", run(traced, func(t *Task) error { t.Spawn(failingBody); return nil }))
	line("main task traced", run(traced, failingBody))
	line("panic", run(rt, func(t *Task) error { t.Spawn(func(*Task) error { panic("at the disco") }); return nil }))
	line("panic with an error", run(rt, func(t *Task) error { t.Spawn(func(*Task) error { panic(os.ErrClosed) }); return nil }))
	line("Goexit", run(rt, func(t *Task) error { runtime.Goexit(); return nil }))
	line("event", run(rt, func(t *Task) error { t.Hold()(errors.New("lost peer")); return nil }))

	inMain := func(f func(t *Task)) (text string) {
		require.NoError(t, run(rt, func(t *Task) error { text = panicOf(func() { f(t) }); return nil }))
		return text
	}
	line("Spawn of nil", inMain(func(t *Task) { t.Spawn(nil) }))
	line("Run of nil", panicOf(func() { rt.Run(bg, nil) }))
	line("Run in a task", inMain(func(*Task) { rt.Run(bg, failingBody) }))
	line("Close in a task", inMain(func(*Task) { rt.Close() }))
	line("Hold without an event", inMain(func(t *Task) {
		c := make(chan string)
		go func() { c <- panicOf(func() { t.Hold() }) }()
		panic(<-c)
	}))
	line("Spawn by a goroutine", inMain(func(t *Task) {
		c := make(chan string)
		go func() { c <- panicOf(func() { t.Spawn(failingBody) }) }()
		panic(<-c)
	}))
	line("Spawn in Blocking", inMain(func(t *Task) { t.Blocking(func() { t.Spawn(failingBody) }) }))
	line("outer task used by an inner body", inMain(func(t *Task) {
		var text string
		t.SpawnWith(Attrs{Label: "inner", Undeferred: true}, func(*Task) error {
			text = panicOf(func() { t.Wait() })
			return nil
		})
		panic(text)
	}))
	line("labelled outer task used by an inner body", inMain(func(t *Task) {
		var text string
		t.SpawnWith(Attrs{Label: "outer", Undeferred: true}, func(o *Task) error {
			o.SpawnWith(Attrs{Label: "inner", Undeferred: true}, func(*Task) error {
				text = panicOf(func() { o.Spawn(failingBody) })
				return nil
			})
			return nil
		})
		panic(text)
	}))
	x := 1
	line("Release of an undeclared object", run(rt, func(t *Task) error { return t.Release(deps.In(&x)) }))

	for _, c := range []Config{{Workers: -1}, {Workers: env.MaxWorkers + 1}, {Window: 1}, {Window: env.MaxWindow + 1}} {
		_, err := Open(c)
		line(fmt.Sprintf("Workers %d, Window %d", c.Workers, c.Window), err)
	}
	for _, v := range []string{"0", "-3", "many", "99999999999999999999", "4097", " 2"} {
		t.Setenv("WEFT_WORKERS", v)
		_, err := Open(Config{})
		line("WEFT_WORKERS="+v, err)
	}
	t.Setenv("WEFT_WORKERS", "")
	for _, v := range []string{"1", "x"} {
		t.Setenv("WEFT_WINDOW", v)
		_, err := Open(Config{Workers: 1})
		line("WEFT_WINDOW="+v, err)
	}
	line("New panics", panicOf(func() { New(Config{}) }))

	closed := openTest(t, Config{Workers: 1, Window: 2})
	require.NoError(t, closed.Close())
	line("Run after Close", run(closed, failingBody))
	golden(t, "errors.txt", b.String())
}

// The site with TraceSpawns is the line of the call.
func TestTraceSpawnsNamesTheCall(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1, TraceSpawns: true})
	var want int
	site := func(spawn func(t *Task)) string {
		err := rt.Run(bg, func(t *Task) error { spawn(t); return nil })
		var e *Error
		require.ErrorAs(t, err, &e)
		return e.Site
	}
	next := func() { _, _, want, _ = runtime.Caller(1); want++ }
	check := func(got string) {
		t.Helper()
		require.Contains(t, got, fmt.Sprintf("errors_test.go:%d (", want))
	}
	check(site(func(t *Task) {
		next()
		t.Spawn(failingBody)
	}))
	check(site(func(t *Task) {
		next()
		t.SpawnWith(Attrs{Label: "x"}, failingBody)
	}))
	check(site(func(t *Task) {
		x := 0
		next()
		t.SpawnWith(Attrs{Undeferred: true}, failingBody, deps.InOut(&x))
	}))
	next()
	err := rt.Run(bg, failingBody)
	var e *Error
	require.ErrorAs(t, err, &e)
	check(e.Site)
}

// Causes can be found with errors.Is and errors.As, through every wrapping.
func TestErrorsUnwrap(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	for name, body := range map[string]func(*Task) error{
		"returned": func(*Task) error { return fmt.Errorf("open: %w", os.ErrNotExist) },
		"panicked": func(*Task) error { panic(fmt.Errorf("open: %w", os.ErrNotExist)) },
		"event":    func(t *Task) error { t.Hold()(os.ErrNotExist); return nil },
		"deep": func(t *Task) error {
			t.Spawn(func(t *Task) error {
				t.Spawn(func(*Task) error { return os.ErrNotExist })
				return t.Wait()
			})
			return t.Wait()
		},
	} {
		err := rt.Run(bg, func(t *Task) error { t.SpawnWith(Attrs{Label: name}, body); return t.Wait() })
		require.ErrorIs(t, err, os.ErrNotExist, name)
		var e *Error
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, name == "panicked", e.Panic != nil)
	}
	// A panic with nil, and one with a value of the program's own.
	err := rt.Run(bg, func(*Task) error { panic(nil) })
	var e *Error
	require.ErrorAs(t, err, &e)
	require.IsType(t, &runtime.PanicNilError{}, e.Panic)
	err = rt.Run(bg, func(*Task) error { panic(withMethod{}) })
	require.ErrorAs(t, err, &e)
	require.Equal(t, withMethod{}, e.Panic)
}

// A context that is over before Run starts nothing; its cause is the error.
func TestRunWithEndedContext(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	ctx, cancel := context.WithCancelCause(bg)
	cancel(errCancel)
	for range 100 {
		require.Equal(t, errCancel, rt.Run(ctx, func(*Task) error { panic("runs") }))
	}
	plain, stop := context.WithCancel(bg)
	stop()
	require.ErrorIs(t, rt.Run(plain, func(*Task) error { panic("runs") }), context.Canceled)
}

// The context of a task is cancelled with the error that ended the run, and carries the values of
// the run's own.
func TestContextOfTask(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	type key struct{}
	ctx := context.WithValue(bg, key{}, 5)
	var cause error
	err := rt.Run(ctx, func(t *Task) error {
		if t.Context().Value(key{}) != 5 || t.Context().Err() != nil || t.Runtime() != rt {
			return errors.New("not the run's context or runtime")
		}
		t.SpawnWith(Attrs{Label: "bad"}, failingBody)
		t.Blocking(func() { <-t.Context().Done() })
		cause = context.Cause(t.Context())
		return nil
	})
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "bad", e.Label)
	require.Equal(t, err, cause)
}

// Goexit of the main task, of a task under Wait and of one in Blocking ends the run and leaves
// every slot in use.
func TestGoexitEverywhere(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		exit := func(*Task) error { runtime.Goexit(); return nil }
		for name, main := range map[string]func(*Task) error{
			"main": exit,
			"under Wait": func(t *Task) error {
				t.Spawn(func(t *Task) error {
					t.Spawn(exit)
					return t.Wait()
				})
				return t.Wait()
			},
			"in Blocking": func(t *Task) error {
				t.Spawn(func(t *Task) error { t.Blocking(runtime.Goexit); return nil })
				return t.Wait()
			},
			"after Block": func(t *Task) error {
				t.Spawn(func(t *Task) error {
					go t.Unblock()
					t.Block()
					runtime.Goexit()
					return nil
				})
				return t.Wait()
			},
			"with children and events": func(t *Task) error {
				for range 10 {
					t.Spawn(func(*Task) error { return nil })
				}
				f := t.Hold()
				go f(nil)
				runtime.Goexit()
				return nil
			},
		} {
			for range 20 {
				require.ErrorIs(t, rt.Run(bg, main), errGoexit, name)
			}
		}
		n := 0
		require.NoError(t, rt.Run(bg, func(t *Task) error { return countTo(t, 100, &n) }))
		require.Equal(t, 100, n)
	}
}

// countTo runs a chain of n tasks that count.
func countTo(t *Task, n int, x *int) error {
	for range n {
		t.Spawn(func(*Task) error { *x++; return nil }, deps.InOut(x))
	}
	return t.Wait()
}
