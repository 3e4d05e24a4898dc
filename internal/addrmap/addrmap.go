// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package addrmap maps addresses.
package addrmap

import "math/bits"

// A Map maps addresses that are not zero to values. Debug mode and lint mode use it instead of Go's
// map: the race detector sees the accesses of Go's map wherever it is called, but not the locks of
// lint mode. It is not generic, because the linker takes the code of an instance from any package
// that has one, also from packages that the race detector sees. The zero value is empty.
type Map struct {
	tab []entry // open addressing, linear probing; a power of two long
	n   int
}

type entry struct {
	key   uintptr
	value any
}

func (m *Map) home(key uintptr) int {
	return int(uint64(key) * 0x9E3779B97F4A7C15 >> (64 - bits.TrailingZeros(uint(len(m.tab)))))
}

// find returns the index of key, or of the empty entry where it belongs.
func (m *Map) find(key uintptr) int {
	i := m.home(key)
	for m.tab[i].key != key && m.tab[i].key != 0 {
		i = (i + 1) & (len(m.tab) - 1)
	}
	return i
}

// Get returns the value of key; nil if there is none.
func (m *Map) Get(key uintptr) (v any) {
	if m.n > 0 {
		v = m.tab[m.find(key)].value
	}
	return v
}

// Len returns the number of addresses with a value.
func (m *Map) Len() int { return m.n }

// Set gives key a value.
func (m *Map) Set(key uintptr, v any) {
	if 4*(m.n+1) > 3*len(m.tab) {
		old := m.tab
		m.tab = make([]entry, max(8, 2*len(old)))
		for _, e := range old {
			if e.key != 0 {
				m.tab[m.find(e.key)] = e
			}
		}
	}
	e := &m.tab[m.find(key)]
	if e.key == 0 {
		e.key = key
		m.n++
	}
	e.value = v
}

// Remove removes key. It moves entries back that collisions had put after it.
func (m *Map) Remove(key uintptr) {
	if m.n == 0 {
		return
	}
	gap := m.find(key)
	if m.tab[gap].key == 0 {
		return
	}
	m.n--
	mask := len(m.tab) - 1
	for i := (gap + 1) & mask; m.tab[i].key != 0; i = (i + 1) & mask {
		if (i-m.home(m.tab[i].key))&mask >= (i-gap)&mask {
			m.tab[gap] = m.tab[i]
			gap = i
		}
	}
	m.tab[gap] = entry{}
}

// All calls f for each value, until f returns false.
func (m *Map) All(f func(any) bool) {
	for i := range m.tab {
		if e := &m.tab[i]; e.key != 0 && !f(e.value) {
			return
		}
	}
}
