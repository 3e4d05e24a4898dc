//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import "fmt"

// Words returns the words of n, which has been registered.
func Words(n *Node) []any {
	list := []any{&n.pending, &n.refs}
	for i := range n.count {
		list = append(list, &n.at(i).state)
	}
	return list
}

// OnCheckLive sets the function that checkLive calls.
func OnCheckLive(f func(word any)) { liveHook = f }

// NameWords calls name for each word of n.
func NameWords(n *Node, as string, name func(string, any)) {
	name(as+".pending", &n.pending)
	name(as+".refs", &n.refs)
	for i := range n.count {
		name(fmt.Sprintf("%s.%d", as, i), &n.at(i).state)
	}
}
