//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

// ahead is nothing to the explorer: it only asks for memory.
func (n *Node) ahead() {}
