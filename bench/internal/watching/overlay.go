// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package watching

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// probeTests matches the tests for a probe.
var probeTests = regexp.MustCompile(`\b\w+(?:\.\w+)*\.probe (==|!=) nil\b`)

// withoutProbe returns a source whose tests for a probe are decided, so that the compiler removes
// the code that depends on them, and the number of tests.
func withoutProbe(source string) (string, int) {
	n := 0
	return probeTests.ReplaceAllStringFunc(source, func(s string) string {
		n++
		if strings.Contains(s, "!=") {
			return "(" + s + " && false)"
		}
		return "(" + s + " || true)"
	}), n
}

// overlay writes the file for go build -overlay that builds the package task in root without the
// probe, and returns its name.
func overlay(root, dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(root, "task", "*.go"))
	if err != nil {
		return "", err
	}
	var o struct{ Replace map[string]string }
	o.Replace = map[string]string{}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		s, n := withoutProbe(string(b))
		if n == 0 {
			continue
		}
		to := filepath.Join(dir, filepath.Base(f))
		if err := os.WriteFile(to, []byte(s), 0o600); err != nil {
			return "", err
		}
		o.Replace[f] = to
	}
	if len(o.Replace) == 0 {
		return "", errors.New("package task has no tests for its probe: the program without the probe would be the same")
	}
	b, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, b, 0o600)
}
