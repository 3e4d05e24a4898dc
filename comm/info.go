// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"slices"
	"strings"
)

// Info is a list of keys and values in the order in which they were first set. The zero Info is empty and ready to
// use. Copies are independent: a change copies the list first. Not safe for concurrent change.
type Info struct{ entries []infoEntry }

type infoEntry struct{ key, value string }

// NewInfo returns an Info of alternating keys and values; it panics if the last value is missing.
func NewInfo(keysAndValues ...string) Info {
	if len(keysAndValues)%2 != 0 {
		panic(fmt.Sprintf("comm: NewInfo with %d strings; keys and values alternate", len(keysAndValues)))
	}
	var in Info
	for i := 0; i < len(keysAndValues); i += 2 {
		in.Set(keysAndValues[i], keysAndValues[i+1])
	}
	return in
}

func (in *Info) index(key string) int {
	return slices.IndexFunc(in.entries, func(e infoEntry) bool { return e.key == key })
}

// Set sets the value of a key.
func (in *Info) Set(key, value string) {
	in.entries = slices.Clone(in.entries) // copies of in stay as they are
	if i := in.index(key); i >= 0 {
		in.entries[i].value = value
		return
	}
	in.entries = append(in.entries, infoEntry{key, value})
}

// Get returns the value of a key, or "".
func (in Info) Get(key string) string {
	v, _ := in.Lookup(key)
	return v
}

// Lookup returns the value of a key and whether it is set.
func (in Info) Lookup(key string) (string, bool) {
	if i := in.index(key); i >= 0 {
		return in.entries[i].value, true
	}
	return "", false
}

// Delete removes a key.
func (in *Info) Delete(key string) {
	if i := in.index(key); i >= 0 {
		in.entries = slices.Concat(in.entries[:i], in.entries[i+1:])
	}
}

// Keys returns the keys in order.
func (in Info) Keys() []string {
	keys := make([]string, len(in.entries))
	for i, e := range in.entries {
		keys[i] = e.key
	}
	return keys
}

// Len returns the number of keys.
func (in Info) Len() int { return len(in.entries) }

// Clone returns a separate copy.
func (in Info) Clone() Info { return Info{slices.Clone(in.entries)} }

// String returns key=value pairs, separated by blanks.
func (in Info) String() string {
	var b strings.Builder
	for i, e := range in.entries {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%q", e.key, e.value)
	}
	return b.String()
}
