// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weft/internal/env"
	"weft/internal/launch"
)

// janitorName is argument 0 of a janitor.
const janitorName = "weft-janitor"

// janitor is the launcher's handle of its janitor process. If the launcher is killed, the janitor
// process kills the groups of the ranks and the other processes of the job, and removes the job's
// files. It reads lines from a pipe that only the launcher writes to:
//
//	"DIR"     the job directory, quoted, before it is made
//	="FILE"   a temporary file, quoted, before it is made
//	+PID      a process group that has been made
//	-PID      a process group that is gone
//
// The end of the pipe means that the launcher is dead. A nil janitor does nothing.
type janitor struct {
	proc *os.Process
	pipe *os.File
}

func startJanitor() (*janitor, error) {
	exe, err := self()
	if err != nil {
		return nil, err
	}
	rd, wr, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer rd.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = wr.Close()
		return nil, err
	}
	defer null.Close()
	// If the launcher is itself a rank of another job, that job's janitor kills processes with its
	// mark. It must not kill this janitor.
	vars := slices.DeleteFunc(env.All(), func(kv string) bool { return strings.HasPrefix(kv, env.Job.Name+"=") })
	// A new session: signals to the launcher's terminal or group do not reach the janitor.
	proc, err := os.StartProcess(exe, []string{janitorName}, &os.ProcAttr{
		Dir: "/", Env: vars, Files: []*os.File{rd, null, null}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = wr.Close()
		return nil, fmt.Errorf("the janitor cannot be started: %w", err)
	}
	return &janitor{proc, wr}, nil
}

// watch tells the janitor of a new process group; forget, of one that is gone.
func (j *janitor) watch(pgid int)  { j.tell("+%d\n", pgid) }
func (j *janitor) forget(pgid int) { j.tell("-%d\n", pgid) }

// clean tells the janitor of the job directory, before it is made.
func (j *janitor) clean(dir string) { j.tell("%q\n", dir) }

// discard tells the janitor of a temporary file, before it is made.
func (j *janitor) discard(file string) { j.tell("=%q\n", file) }

func (j *janitor) tell(format string, what any) {
	if j != nil {
		// an error means that the janitor is gone; the job goes on without it
		fmt.Fprintf(j.pipe, format, what)
	}
}

// stop ends the janitor when nothing is left to clean up.
func (j *janitor) stop() {
	if j != nil {
		_ = j.proc.Kill()
		_, _ = j.proc.Wait()
		_ = j.pipe.Close()
	}
}

// Janitor must be the first call of a program that runs jobs. If this process is a janitor, Janitor
// does its work and returns true; the program must then end.
func Janitor() bool {
	if len(os.Args) != 1 || os.Args[0] != janitorName {
		return false
	}
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	groups, dir, temp := map[int]bool{}, "", ""
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		text, isTemp := strings.CutPrefix(lines.Text(), "=")
		name, err := strconv.Unquote(text)
		switch {
		case err == nil && isTemp:
			temp = name
		case err == nil:
			dir = name
		case len(text) > 1:
			if pgid, err := strconv.Atoi(text[1:]); err == nil && pgid > 1 {
				groups[pgid] = text[0] == '+'
			}
		}
	}
	if temp != "" {
		_ = os.Remove(temp) // it rarely exists
	}
	for pgid, alive := range groups {
		if alive {
			_ = syscall.Kill(-pgid, syscall.SIGKILL)
		}
	}
	if dir == "" {
		return true // there is no job yet
	}
	// Processes that were started a moment ago, or have made a group of their own.
	for tries := 100; tries > 0 && killMarked(env.Job.Name+"="+dir) > 0; tries-- {
		// while the kernel ends them; they may have started children
		time.Sleep(5 * time.Millisecond)
	}
	// A rank may be making a file in the directory while it is killed.
	for tries := 20; tries > 0 && launch.Remove(dir) != nil; tries-- {
		time.Sleep(10 * time.Millisecond)
	}
	return true
}
