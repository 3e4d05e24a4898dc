//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

// ahead and further ask for no memory where the explorer runs.
func (n *Node) ahead() (star bool) {
	star = true
	for i := range n.count {
		star = star && (n.at(i).state.Load()&isReader != 0) == (i > 0)
	}
	return star
}

func (a *access) further() {}
