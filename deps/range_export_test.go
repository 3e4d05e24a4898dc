// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

// HasRanges reports whether the domain of n's children is one of ranges.
func HasRanges(n *Node) bool { return n.dom != nil && n.dom.ranges != nil }
