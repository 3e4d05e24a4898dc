// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"html"
	"strings"
	"unicode/utf8"
)

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
