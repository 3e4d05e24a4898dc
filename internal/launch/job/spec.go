// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weft/internal/launch"
	"weft/internal/launch/bind"
)

// Exit statuses of the launcher itself, as shells and timeout(1) use them.
const (
	StatusFailure    = 1
	StatusUsage      = 2
	StatusTimeout    = 124
	StatusCannotRun  = 126
	StatusNoProgram  = 127
	StatusSignalBase = 128
)

// Part is a part of the command line: ranks that run one program.
type Part struct {
	Ranks   int
	Program string // with a slash: a file; without: searched in PATH
	Args    []string
	Dir     string   // working directory; "": the launcher's
	Env     []string // "K=V", besides the launcher's environment
}

// Spec describes a job. The meaning of a zero value is that of the field's comment.
type Spec struct {
	Parts     []Part
	Label     bool          // begin each line with the rank
	OutputDir string        // write files rank.R.out and rank.R.err there instead; "": do not
	KeepGoing bool          // let the other ranks go on when one fails
	Timeout   time.Duration // end the job after that; 0: never
	Grace     time.Duration // from SIGTERM, or a SIGHUP from outside, to SIGKILL; 0: DefaultGrace
	Stdin     *os.File      // for rank 0; nil: no input
	// CopyStdin: Stdin is a terminal, which a process in the background cannot read; the launcher
	// reads it and passes the input on.
	CopyStdin bool
	Stdout    io.Writer
	Stderr    io.Writer
	Signals   <-chan os.Signal // to pass on; nil: none
	Bind      *bind.Policy     // the processors that ranks are bound to; nil: none
	Verbose   bool             // report how ranks are bound
	Janitor   bool             // use a janitor; the program of this process must call Janitor

	// A job on several machines has a launcher on each. One listens at the address Listen, and has
	// Elsewhere ranks besides its own. The others Join that address, and bring these ranks. All
	// know SecretFile, which the listening launcher makes if it does not exist.
	Listen     string
	Elsewhere  int
	Join       string
	First      int           // with Join: number of this launcher's first rank; 0: any
	Wait       time.Duration // for other launchers to join, or to listen; 0: DefaultWait
	SecretFile string
	// DeadAfter bounds the time until a vanished machine is noticed; 0: env.DefaultDeadAfter.
	DeadAfter time.Duration
}

// DefaultWait is the time for a person, or a script, to start the launcher on the other machine. A
// guess.
const DefaultWait = time.Minute

// DefaultGrace is the time from SIGTERM to SIGKILL. A guess at the time that a program needs to
// save its data.
const DefaultGrace = 5 * time.Second

// Error says why a job could not be started, with the launcher's exit status.
type Error struct {
	Status int
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

func usage(format string, args ...any) error {
	return &Error{Status: StatusUsage, Err: fmt.Errorf(format, args...)}
}

// program is the checked command line of one rank.
type program struct {
	part int
	name string // as given
	path string // absolute
	dir  string
	args []string // including the name
	env  []string
}

// check validates a job and returns its programs by rank.
func (s *Spec) check() ([]program, error) {
	if len(s.Parts) == 0 {
		return nil, usage("there is no program to run")
	}
	s.Grace = cmp.Or(s.Grace, DefaultGrace)
	if s.Grace < 0 || s.Timeout < 0 {
		return nil, usage("a time limit of %v and a grace of %v; they cannot be negative", s.Timeout, s.Grace)
	}
	if err := s.checkSpread(); err != nil {
		return nil, err
	}
	s.Wait = cmp.Or(s.Wait, DefaultWait)
	total := s.Elsewhere
	for _, p := range s.Parts {
		if p.Ranks < 1 || p.Ranks > launch.MaxRanks {
			return nil, usage("%d ranks of %s; 1 to %d are legal", p.Ranks, p.Program, launch.MaxRanks)
		}
		total += p.Ranks
	}
	if total > launch.MaxRanks {
		return nil, usage("%d ranks in all; at most %d are legal", total, launch.MaxRanks)
	}
	var all []program
	for i, p := range s.Parts {
		one, err := p.check()
		if err != nil {
			return nil, err
		}
		one.part = i
		all = append(all, slices.Repeat([]program{one}, p.Ranks)...)
	}
	return all, nil
}

// checkSpread validates the fields for jobs on several machines.
func (s *Spec) checkSpread() error {
	several := s.Listen != "" || s.Join != ""
	switch {
	case s.Listen != "" && s.Join != "":
		return usage("a launcher either listens (%s) or joins one that does (%s)", s.Listen, s.Join)
	case several && s.SecretFile == "":
		return usage("launchers on several machines need a file with a secret that all of them know")
	case !several && (s.SecretFile != "" || s.Elsewhere != 0 || s.First != 0 || s.Wait != 0):
		return usage("the secret file, ranks elsewhere, the first rank and the time to wait are for launchers that listen or join")
	case s.Listen != "" && (s.Elsewhere < 1 || s.Elsewhere > launch.MaxRanks):
		return usage("%d ranks elsewhere; a launcher that listens waits for 1 to %d", s.Elsewhere, launch.MaxRanks)
	case s.Listen == "" && s.Elsewhere != 0:
		return usage("ranks elsewhere are those that the launcher which listens waits for; this one joins")
	case s.First < 0 || s.First >= launch.MaxRanks || s.Join == "" && s.First != 0:
		return usage("first rank %d; it is for a launcher that joins, and 1 to %d", s.First, launch.MaxRanks-1)
	}
	for _, addr := range []string{s.Listen, s.Join} {
		if _, _, err := net.SplitHostPort(addr); addr != "" && err != nil {
			return usage("address %q; it must be HOST:PORT", addr)
		}
	}
	return nil
}

func (p *Part) check() (program, error) {
	prog := program{name: p.Program, args: append([]string{p.Program}, p.Args...), env: p.Env}
	for _, kv := range p.Env {
		k, _, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return prog, usage("environment %q; it must be NAME=VALUE", kv)
		}
		if launch.Reserved(k) {
			return prog, usage("environment %q; %s is set by the launcher", kv, k)
		}
	}
	var err error
	if p.Dir != "" {
		var st os.FileInfo
		if prog.dir, err = filepath.Abs(p.Dir); err == nil {
			st, err = os.Stat(prog.dir)
		}
		if err == nil && !st.IsDir() {
			err = errors.New("it is not a directory")
		}
		if err != nil {
			return prog, usage("working directory %s: %w", p.Dir, cause(err))
		}
	}
	prog.path, err = find(p.Program, prog.dir)
	return prog, err
}

// cause returns an error without the call and the path, which the message has already.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// find returns the absolute path of a program. A name with a slash is relative to the launcher's
// working directory or, if the file does not exist there, to that of the ranks. A name without a
// slash is searched in PATH.
func find(name, dir string) (string, error) {
	if name == "" {
		return "", usage("the name of the program is empty")
	}
	if filepath.Base(name) == name {
		path, err := exec.LookPath(name)
		if err == nil {
			return filepath.Abs(path)
		}
		hint := ""
		if st, e := os.Stat(name); e == nil && !st.IsDir() {
			hint = fmt.Sprintf("; there is one in the working directory, which is ./%s", name)
		}
		return "", &Error{Status: StatusNoProgram, Err: fmt.Errorf("%s: there is no such program in PATH%s", name, hint)}
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return "", &Error{Status: StatusNoProgram, Err: err}
	}
	tried := path
	err = executable(path)
	if errors.Is(err, fs.ErrNotExist) && dir != "" && !filepath.IsAbs(name) {
		path = filepath.Join(dir, name)
		tried += " or " + path
		err = executable(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", &Error{Status: StatusNoProgram, Err: fmt.Errorf("%s: there is no file %s", name, tried)}
	case err != nil:
		return "", &Error{Status: StatusCannotRun, Err: fmt.Errorf("%s: cannot be run: %w", name, cause(err))}
	}
	return path, nil
}

func executable(path string) error {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case st.IsDir():
		return errors.New("it is a directory")
	case !st.Mode().IsRegular():
		return errors.New("it is not a regular file")
	}
	if _, err = exec.LookPath(path); err != nil {
		return errors.New("it is not executable")
	}
	return nil
}

// environ joins lists of variables. Of several variables with the same name the last one counts.
func environ(lists ...[]string) []string {
	at := map[string]int{}
	var env []string
	for _, kv := range slices.Concat(lists...) {
		k, _, ok := strings.Cut(kv, "=")
		i, found := at[k]
		switch {
		case !ok || k == "":
			env = append(env, kv) // an entry that is no variable, as some systems have
		case found:
			env[i] = kv
		default:
			at[k] = len(env)
			env = append(env, kv)
		}
	}
	return env
}
