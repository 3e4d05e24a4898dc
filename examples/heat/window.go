// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"weft/examples/heat/internal/conf"
	"weft/nam"
)

// Names of windows. If the user does not name the window of a run, its name is
//
//	heat-HOST-PID-N
//
// with the lowest free N. The window is kept until the next such run on this host, which removes
// the windows of processes that have ended. So the store does not grow from run to run, the windows
// of running programs stay, and windows that the user has named are never removed.

// unnamedPrefix returns the common prefix of these names on this host.
func unnamedPrefix() string {
	host, err := os.Hostname()
	if err != nil || nameIsBad(host) {
		host = "localhost"
	}
	return "heat-" + host + "-"
}

// nameIsBad reports whether the store might refuse a name for its characters or its length.
func nameIsBad(s string) bool {
	return s == "" || len(s) > 200 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// chooseWindow returns the name for the run's window. A name that the user gives must be free.
func chooseWindow(s *nam.Store, asked string) (string, error) {
	if asked != "" {
		_, err := s.Stat(asked)
		switch {
		case err == nil:
			return "", windowInUse(s, asked)
		case errors.Is(err, nam.ErrName):
			return asked, nil
		default:
			return "", &conf.UsageError{Err: err}
		}
	}
	taken, err := removeLeftovers(s)
	if err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s%d-%d", unnamedPrefix(), os.Getpid(), n)
		if !taken[name] {
			return name, nil
		}
	}
}

// freeName returns the first of name, name2, name3 and so on that no window of the store has.
func freeName(s *nam.Store, name string) string {
	free := name
	for n := 2; ; n++ {
		if _, err := s.Stat(free); err != nil {
			return free
		}
		free = fmt.Sprintf("%s%d", name, n)
	}
}

func windowInUse(s *nam.Store, name string) error {
	return &conf.UsageError{Err: fmt.Errorf(
		"window %q exists in %s: choose another -window, or remove it: %s", name, s.Dir(), removeCommand(s, name))}
}

// removeCommand returns the command that removes a window.
func removeCommand(s *nam.Store, name string) string {
	return fmt.Sprintf("go run ./cmd/weft nam rm --nam-dir %s %s", word(s.Dir()), word(name))
}

// plain matches words without characters that are special to a shell.
var plain = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// word quotes s for a shell and an option parser.
func word(s string) string {
	dashes := ""
	if strings.HasPrefix(s, "-") {
		dashes = "-- "
	}
	if plain.MatchString(s) {
		return dashes + s
	}
	return dashes + "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// removeLeftovers removes the windows of unnamed runs that have ended, and returns the names of the
// other windows.
func removeLeftovers(s *nam.Store) (map[string]bool, error) {
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for _, a := range list {
		if !ended(a.Name) {
			taken[a.Name] = true
			continue
		}
		// Another run may be removing the window too, and a window of another user may not be
		// removable.
		if err := s.Remove(a.Name); err != nil {
			taken[a.Name] = true
		}
	}
	return taken, nil
}

// ended reports whether name belongs to an unnamed run of this host whose process has ended.
func ended(name string) bool {
	rest, ok := strings.CutPrefix(name, unnamedPrefix())
	if !ok {
		return false
	}
	pidText, n, ok := strings.Cut(rest, "-")
	pid, err := strconv.Atoi(pidText)
	if _, e := strconv.Atoi(n); !ok || err != nil || e != nil || pid <= 0 {
		return false
	}
	if pid == os.Getpid() {
		return false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH)
}
