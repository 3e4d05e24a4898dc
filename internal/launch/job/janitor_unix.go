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

// janitorName is what a janitor has as argument 0.
const janitorName = "weft-janitor"

// janitor is the launcher's hold on its janitor: a process that outlives it if it is killed, and
// then kills the groups of the ranks, and what else the job has started, and removes its files. It
// reads, from a pipe that only the launcher writes to, a line with the job directory, quoted,
// before that is made, one with a temporary file behind an equals sign likewise, and lines "+PID"
// and "-PID" of groups that have come and gone. At the end of the pipe the launcher is dead. A nil
// janitor does nothing.
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
	// If the launcher is a rank of another job, whose janitor kills what belongs to that: this one
	// is not to be killed.
	vars := slices.DeleteFunc(env.All(), func(kv string) bool { return strings.HasPrefix(kv, env.Job.Name+"=") })
	// A session of its own: what ends the launcher's terminal or group is not for the janitor.
	proc, err := os.StartProcess(exe, []string{janitorName}, &os.ProcAttr{
		Dir: "/", Env: vars, Files: []*os.File{rd, null, null}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = wr.Close()
		return nil, fmt.Errorf("the janitor cannot be started: %w", err)
	}
	return &janitor{proc, wr}, nil
}

// watch tells of a process group that has come; forget, of one that has gone.
func (j *janitor) watch(pgid int)  { j.tell("+%d\n", pgid) }
func (j *janitor) forget(pgid int) { j.tell("-%d\n", pgid) }

// clean tells of the job directory, which is about to be made.
func (j *janitor) clean(dir string) { j.tell("%q\n", dir) }

// discard tells of a temporary file, likewise.
func (j *janitor) discard(file string) { j.tell("=%q\n", file) }

func (j *janitor) tell(format string, what any) {
	if j != nil {
		fmt.Fprintf(j.pipe, format, what) // without a janitor the job is as well off as it can be
	}
}

// stop ends the janitor, for which there is nothing left to do.
func (j *janitor) stop() {
	if j != nil {
		_ = j.proc.Kill()
		_, _ = j.proc.Wait()
		_ = j.pipe.Close()
	}
}

// Janitor is for the program that runs jobs to call first. If this process is a janitor, it does
// its work and returns true; then the program ends.
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
		_ = os.Remove(temp) // which is rarely there
	}
	for pgid, alive := range groups {
		if alive {
			_ = syscall.Kill(-pgid, syscall.SIGKILL)
		}
	}
	if dir == "" {
		return true // there is nothing yet
	}
	// What was started a moment ago, and what has made a group of its own.
	for tries := 100; tries > 0 && killMarked(env.Job.Name+"="+dir) > 0; tries-- {
		time.Sleep(5 * time.Millisecond) // the kernel takes them apart; they may have had children
	}
	// A rank may be making a file in the directory while it is killed.
	for tries := 20; tries > 0 && launch.Remove(dir) != nil; tries-- {
		time.Sleep(10 * time.Millisecond)
	}
	return true
}
