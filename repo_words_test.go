// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package weft_test

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// width is the number of columns that comments and prose have; a tab is four.
const width = 100

// comment finds the comment of a line of source, and its text. A line that only holds part of a
// string may look the same.
var comment = map[string]*regexp.Regexp{
	"go": regexp.MustCompile(`(?:^|\s)//(.*)$`),
	"c":  regexp.MustCompile(`(?:^|\s)//(.*)$|(?:^\s*|\s/)\* (.*)$`),
	"sh": regexp.MustCompile(`(?:^|\s)#(.*)$`),
}

// exempt are comments that cannot be wrapped: directives, marks of tests, output, and addresses.
// apart are tables, code and output within a comment, which a tab or several blanks set apart: they
// have some columns more.
var (
	exempt = regexp.MustCompile(`^(go:|bug:|\+| want | vet: | weft: )|//bug:|://`)
	apart  = regexp.MustCompile(`^(\t|  )`)
)

// Comments and prose end at column 100. Code, tables and what programs print need not.
func TestWidth(t *testing.T) {
	columns := func(line string) int {
		return utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
	}
	long := func(line string) bool { return columns(line) > width }
	for _, p := range textFiles(t, isText) {
		kind := map[string]string{".go": "go", ".s": "go", ".c": "c", ".cpp": "c", ".h": "c", ".sh": "sh"}[path.Ext(p)]
		if p == ".ci/run" {
			kind = "sh"
		}
		if kind == "" {
			continue
		}
		for i, line := range strings.Split(read(t, p), "\n") {
			m := comment[kind].FindStringSubmatch(line)
			if m == nil || !long(line) || exempt.MatchString(m[1]+m[len(m)-1]) || quoted(line, m[0]) {
				continue
			}
			if apart.MatchString(m[1]) && columns(line) <= width+10 {
				continue
			}
			assert.Fail(t, "a comment is wider than 100 columns", "%s:%d: %s", p, i+1, line)
		}
	}
	for p, pg := range pages(t) {
		for i, line := range pg.prose {
			if long(line) && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "![") {
				// What one cannot break: a code span, and a link's target.
				rest := link.ReplaceAllString(inlineCode.ReplaceAllString(line, ""), "")
				assert.False(t, strings.Contains(strings.TrimSpace(rest), " "), "%s:%d: prose is wider than 100 columns: %s", p, i+1, line)
			}
		}
	}
}

// quoted reports whether the comment of a line is part of a string: an odd number of quotation
// marks stands before it.
func quoted(line, comment string) bool {
	before := strings.TrimSuffix(line, comment)
	return strings.Count(before, `"`)%2 == 1 || strings.Count(before, "`")%2 == 1
}

// private are words that weft once used where the field has a term, and that term. docs/GLOSSARY.md
// explains the terms.
var private = map[string]string{
	"ahead": "prefetch", "comes": "prefetch", "further": "prefetch", "touch": "prefetch",
	"aside": "poll list, table cache", "beside": "poll list",
	"ballot": "consensus instance", "circle": "consensus instance", "vote": "value, proposal",
	"bell": "doorbell", "knock": "doorbell", "rope": "doorbell", "rouse": "doorbell",
	"board": "collective buffer", "stage": "collective buffer, harness",
	"books": "access audit", "unlinked": "access audit",
	"bundle": "packet", "parcel": "packet", "lane": "channel",
	"bury": "mark dead", "buried": "dead", "mourn": "failure notice", "mourning": "failure notice",
	"claim": "reserve, take", "hub": "rendezvous", "place": "slot, position, location",
	"cleared": "CTS", "wanted": "CTS", "pull": "rendezvous",
	"doubt": "suspicion, uncertainty", "stall": "deadlock",
	"eased": "backoff timer", "given": "early release", "later": "backoff timer",
	"eyes": "poller", "look": "poll, check", "looker": "poller",
	"seek": "direct receive", "seeker": "direct receive", "sought": "direct receive", "tired": "budget",
	"seat": "member, MPI lock", "sit": "lock", "rise": "unlock",
	"stranger": "unknown peer", "trouble": "failure state",
	"vigil": "keep-alive", "witness": "trace oracle",
}

// ordinary are names in which such a word means what it means to everybody.
var ordinary = map[string]string{
	"Later": "comm.Comm.Later, which users have",
}

// known is a term of users of network-attached memory, whose windows are set aside.
var known = regexp.MustCompile(`(?i)asides?`)

// unmistakable are those of the private words that no sentence needs.
var unmistakable = regexp.MustCompile(`(?i)\b(ballots?|lookers?|seekers?|parcels?|vigils?|mourn\w*|bury|buried|ropes?|knocks?|rouse\w*|strangers?|sought)\b`)

// vague is a word for a person, where a comment means a caller, a goroutine or a rank. person is
// a person.
var (
	vague  = regexp.MustCompile(`(?i)\b(who|whom|whoever)\b`)
	person = regexp.MustCompile(`(?i)\b(users?|readers?|person|people) who\b`)
)

var wordPart = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// A reader of the field finds its terms. What is declared has no private word in its name, nor has
// a file; a test's name is a sentence. Comments and pages have none that could not be mistaken for
// an ordinary one, and say caller, goroutine or rank for them.
func TestTerms(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, name := range append(declared(f.ast), strings.TrimSuffix(path.Base(f.path), ".go")) {
			if ordinary[name] != "" {
				continue
			}
			if f.part == "nam" || f.part == "cmd/weft" {
				name = known.ReplaceAllString(name, "")
			}
			for _, part := range wordPart.FindAllString(name, -1) {
				word := strings.ToLower(part)
				if private[word] == "" {
					word = strings.TrimSuffix(word, "s")
				}
				assert.Empty(t, private[word], "%s: %s: a private word; the term is the one that follows", f.path, name)
			}
		}
	}
	for _, p := range textFiles(t, isText) {
		if p == "docs/GLOSSARY.md" || p == "docs/RATIONALE.md" || p == "repo_words_test.go" {
			continue
		}
		for i, line := range strings.Split(read(t, p), "\n") {
			assert.False(t, unmistakable.MatchString(line), "%s:%d: a private word: %s", p, i+1, line)
			if isSource(p) {
				assert.False(t, vague.MatchString(person.ReplaceAllString(line, "")), "%s:%d: say caller, goroutine or rank: %s", p, i+1, line)
			}
		}
	}
}

// declared returns the names of what a package has: types, functions, methods, fields, constants
// and variables, but for those of tests, which are sentences.
func declared(f *ast.File) (names []string) {
	add := func(list ...*ast.Ident) {
		for _, id := range list {
			names = append(names, id.Name)
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if !sentence.MatchString(d.Name.Name) {
				add(d.Name)
			}
		case *ast.GenDecl:
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.TypeSpec:
					add(n.Name)
				case *ast.ValueSpec:
					add(n.Names...)
				case *ast.StructType:
					for _, field := range n.Fields.List {
						add(field.Names...)
					}
				case *ast.InterfaceType:
					for _, field := range n.Methods.List {
						add(field.Names...)
					}
				case *ast.FuncLit:
					return false
				}
				return true
			})
		}
	}
	return names
}

var sentence = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)`)

// A page explains its terms by links to the glossary.
func TestPagesLinkTheGlossary(t *testing.T) {
	for p, pg := range pages(t) {
		if (p == "README.md" || strings.HasPrefix(p, "docs/")) && p != "docs/GLOSSARY.md" {
			found := strings.Contains(strings.Join(pg.prose, "\n"), "GLOSSARY.md")
			assert.True(t, found, "%s: link the first use of a term to docs/GLOSSARY.md", p)
		}
	}
}

// The README of a part with a protocol opens with a picture of its states: a fenced block with
// arrows, in the first section and the first 30 lines.
func TestProtocolsOpenWithAPicture(t *testing.T) {
	arrow := regexp.MustCompile(`[─►◄▶▼▲└┌│]|-->|──|\+--`)
	for _, p := range textFiles(t, func(p string) bool { return path.Base(p) == "README.md" }) {
		if p == "README.md" || strings.HasPrefix(p, "bench/") {
			continue
		}
		_, after, found := strings.Cut(read(t, p), "```")
		require.True(t, found, "%s has no picture", p)
		picture, _, _ := strings.Cut(after, "```")
		assert.Regexp(t, arrow, picture, "%s: the first block is the picture of the states", p)
		before := strings.TrimSuffix(read(t, p), "```"+after)
		assert.LessOrEqual(t, strings.Count(before, "\n## "), 1, "%s: the picture stands in the first section", p)
		assert.LessOrEqual(t, strings.Count(before, "\n"), 30, "%s: the picture comes first", p)
	}
}
