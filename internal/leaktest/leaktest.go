// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package leaktest fails the tests of a package that leave goroutines behind. Each package with
// tests has a TestMain that ends with it:
//
//	func TestMain(m *testing.M) { os.Exit(leaktest.Main(m)) }
package leaktest

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// envAlone is set in the processes that Alone starts.
const envAlone = "LEAKTEST_ALONE"

// Main runs the tests of a package and returns the exit status. It is not 0 if a goroutine that the
// tests started still exists a second after the last test; its stack is printed then. Goroutines
// that existed before, such as those of other packages' init functions, do not count.
func Main(m interface{ Run() int }) (status int) {
	before := goleak.IgnoreCurrent()
	status = m.Run()
	if status != 0 || os.Getenv(envAlone) != "" {
		return status // a failed test may have left anything
	}
	if err := goleak.Find(before); err != nil {
		fmt.Fprintln(os.Stderr, "the tests have left goroutines behind:", err)
		return 1
	}
	return 0
}

// Alone runs the calling test once more, in a new process, and returns true in that process only.
// It is for tests of programs that nothing can end: their goroutines end with the process.
func Alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(envAlone) != "" {
		return true
	}
	parts := strings.Split(t.Name(), "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", strings.Join(parts, "/"), "-test.v")
	cmd.Env = append(os.Environ(), envAlone+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
		t.Fatalf("in a process of its own: %v\n%s", err, out)
	}
	return false
}
