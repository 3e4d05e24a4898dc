// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

// HasRanges reports whether the domain of n's children is one of ranges.
func HasRanges(n *Node) bool { return n.dom != nil && inRanges(n.dom) != nil }

// RangeEntries returns the number of entries of the table of ranges of n's children.
func RangeEntries(n *Node) int {
	if !HasRanges(n) || inRanges(n.dom).last == nil {
		return 0
	}
	return inRanges(n.dom).last.n
}

// Fragments returns the number of fragments of what n has declared in a domain of ranges.
func Fragments(n *Node) int { return inRanges(n.dom).own.count() }

// NoMessages reports whether f has never had a message of a domain of ranges.
func NoMessages(f *Flow) bool { return f.msgs == nil && f.outs == nil }

// LargeObjects returns the number of notes about sizes in the domain of n's children.
func LargeObjects(n *Node) int { return len(n.dom.big) }
