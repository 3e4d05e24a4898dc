// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests of this directory compile and run what the pages say. An example function holds the
// code of one or more blocks of the guide; a block that is a whole program is built and run as a
// module of its own.

// block is a fenced block of a page.
type block struct {
	page string
	line int
	lang string
	text string
}

// blocks returns the fenced blocks of all pages under root.
func blocks(t *testing.T, root string) []block {
	t.Helper()
	var list []block
	require.NoError(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(p) != ".md" {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		var b *block
		for i, line := range strings.Split(string(text), "\n") {
			fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
			switch {
			case isFence && b == nil:
				b = &block{page: p, line: i + 1, lang: fence}
			case isFence:
				list = append(list, *b)
				b = nil
			case b != nil:
				b.text += line + "\n"
			}
		}
		return nil
	}))
	return list
}

func allBlocks(t *testing.T) []block {
	return append(blocks(t, "."), blocks(t, "../README.md")...)
}

// squeeze drops indentation, alignment and empty lines, which differ between a page and a file.
func squeeze(text string) string {
	var b strings.Builder
	b.WriteByte('\n')
	for line := range strings.Lines(text) {
		if s := strings.Join(strings.Fields(line), " "); s != "" {
			b.WriteString(s + "\n")
		}
	}
	return b.String()
}

// Every block of Go in the documentation is code that is compiled: of an example here, or of the
// heat program.
func TestBlocksAreCode(t *testing.T) {
	var code []string
	for _, dir := range []string{".", "../examples/heat"} {
		require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(p) != ".go" {
				return err
			}
			text, err := os.ReadFile(p)
			code = append(code, squeeze(string(text)))
			return err
		}))
	}
	found := 0
	for _, b := range allBlocks(t) {
		if b.lang != "go" || isProgram(b) {
			continue
		}
		found++
		ok := false
		for _, c := range code {
			ok = ok || strings.Contains(c, squeeze(b.text))
		}
		assert.True(t, ok, "%s:%d: this block is not in any Go file of docs or examples/heat:\n%s", b.page, b.line, b.text)
	}
	require.Greater(t, found, 10)
}

func isProgram(b block) bool { return b.lang == "go" && strings.HasPrefix(b.text, "package main\n") }

// Every block that is a whole program builds and runs in a module of its own, which finds weft by a
// replace line, and prints the text block that follows it. The commands are those of
// docs/guide/start.md.
func TestProgramsInModulesOfTheirOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	start, err := os.ReadFile("guide/start.md")
	require.NoError(t, err)
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	sums, err := os.ReadFile("../go.sum")
	require.NoError(t, err)
	all := allBlocks(t)
	found := 0
	for i, b := range all {
		if !isProgram(b) {
			continue
		}
		found++
		next := slices.IndexFunc(all[i:], func(b block) bool { return b.lang == "text" })
		require.Positive(t, next, "%s:%d: no output follows", b.page, b.line)
		want := all[i+next]
		require.Equal(t, b.page, want.page, "%s:%d: no output follows", b.page, b.line)

		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(b.text), 0o666))
		// With the sums at hand, nothing is looked up in the network.
		require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o666))
		var out string
		for _, line := range []string{
			"go mod init hello",
			"go mod edit -require weft@v0.0.0 -replace weft=PATH-TO-WEFT",
			"go mod tidy",
			"go run .",
		} {
			require.Contains(t, string(start), line, "the guide says otherwise")
			out = command(t, dir, strings.Fields(strings.ReplaceAll(line, "PATH-TO-WEFT", root)))
		}
		require.Equal(t, want.text, out, "%s:%d", b.page, b.line)
	}
	require.Equal(t, 2, found)
}

// command runs a command in dir and returns what it writes to stdout.
func command(t *testing.T, dir string, words []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "PWD="+dir)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "%v\n%s", words, &stderr)
	return stdout.String()
}
