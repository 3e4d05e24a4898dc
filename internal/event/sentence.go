// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"fmt"
	"html"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Sentence says an event in words. spec gives the text of an origin.
func Sentence(r *Record, spec func(uint32) string) string {
	i := r.Kind().Info()
	if i == nil {
		return r.Kind().String()
	}
	s := i.Sentence
	for n := range i.Fields {
		f := &i.Fields[n]
		s = strings.ReplaceAll(s, "{"+f.Name+"}", f.text(r.Get(f), spec))
	}
	return s
}

// text writes the value of a field.
func (f *Field) text(v int64, spec func(uint32) string) string {
	switch f.Type {
	case Spec, Name:
		return spec(uint32(v))
	case Address:
		return "0x" + strconv.FormatUint(uint64(v), 16)
	case Bytes:
		return fmt.Sprintf("%d bytes", v)
	case Enum:
		if v < int64(len(f.Values)) {
			return f.Values[v]
		}
	case Rank, Tag:
		if v == -1 {
			return "any"
		}
	case Flags:
		var l []string
		for i, name := range f.Values {
			if v>>i&1 != 0 {
				l = append(l, name)
			}
		}
		if l == nil {
			return "-"
		}
		return strings.Join(l, ", ")
	}
	return strconv.FormatInt(v, 10)
}

// XML makes any text, such as the label of a task, one of XML: what XML cannot have, which is most control characters and what is no UTF-8, becomes the
// replacement character.
func XML(text string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff {
			return utf8.RuneError
		}
		return r // what is no UTF-8 comes as that already
	}, text))
}
