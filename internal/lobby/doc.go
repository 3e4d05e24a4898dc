// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package lobby bounds the number of a listener's connections whose other ends have not yet proved
// that they belong to the job:
//
//	unproved := lobby.New(64)
//	for {
//		c, err := listener.Accept()
//		...
//		if !unproved.Enter(c, closing) { // waits for room
//			return
//		}
//		go func() {
//			defer unproved.Leave(c)
//			if prove(c) != nil || !unproved.Leave(c) {
//				return // Enter may have evicted c at the last moment
//			}
//			...
//		}()
//	}
//
// States of a connection:
//
//	accepted ──Enter──► unproved ──Leave──► proved, or ended by its goroutine
//	                        └─────evicted─► closed by Enter
//
// When the lobby is full, Enter evicts the oldest connection: it closes that connection. No
// connection is evicted in its first tenth of a second; meanwhile further ones wait in the
// listener's queue. The rules, and what goes wrong without them:
//
//   - The oldest connection is evicted. If the newest were refused instead, idle connections would
//     keep all others out for as long as a proof may take.
//   - No young connection is evicted. If many ranks connect at the same time, each new connection
//     would end the one before, which was about to prove itself.
//   - Enter waits and takes no further connection meanwhile. If it closed connections for which
//     there is no room, an honest dialler would use up its attempts in the first tenth of a second.
//
// So an unknown peer that connects without end gets as many connections through as there is room
// for, ten times a second. An honest dialler whose connection is evicted tries again.
package lobby
