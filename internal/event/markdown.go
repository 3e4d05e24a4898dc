// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"fmt"
	"strings"
)

// Markdown returns docs/events.md: the table, for people.
func Markdown() string {
	var b strings.Builder
	b.WriteString(markdownHead)
	for _, group := range groups {
		fmt.Fprintf(&b, "\n## Events of %s\n\n| number | event | meaning | fields |\n|---|---|---|---|\n", group)
		for i := range table {
			if k := &table[i]; k.Group == group {
				fmt.Fprintf(&b, "| %d | `%s` | %s | %s |\n", k.Kind, k.Name, k.Sentence, k.fields())
			}
		}
	}
	return b.String()
}

const markdownHead = `# Events

What a recorded program says of itself. This page is made from the table in package internal/event, by
` + "`go run ./cmd/weft trace events > docs/events.md`" + `. How events follow one another is in [the package's README](../internal/event/README.md).

A field has a name, a type, and its place in the record: word A, B or C, and which of its bits. Numbers of events and places of fields do
not change between versions of the trace format; new events are added.
`

// fields returns the column of the fields.
func (i *Info) fields() string {
	if len(i.Fields) == 0 {
		return "–"
	}
	var l []string
	for n := range i.Fields {
		f := &i.Fields[n]
		s := fmt.Sprintf("`%s`: %s, %c", f.Name, f.Type, 'A'+f.Word)
		if f.Bits < 64 {
			s += fmt.Sprintf(" %d–%d", f.Shift, f.Shift+f.Bits-1)
		}
		if f.Values != nil {
			s += " (" + strings.Join(f.Values, ", ") + ")"
		}
		l = append(l, s)
	}
	return strings.Join(l, "; ")
}
