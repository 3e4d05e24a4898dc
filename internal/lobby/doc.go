// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package lobby bounds the connections that a listener has taken and whose other ends have not yet
// proved that they belong to the job:
//
//	var strangers = lobby.New(64)
//	for {
//		c, err := listener.Accept()
//		...
//		if !strangers.Enter(c, closing) { // waits for room
//			return
//		}
//		go func() {
//			defer strangers.Leave(c)
//			if prove(c) != nil || !strangers.Leave(c) {
//				return // c has given way, it may be at the last moment
//			}
//			...
//		}()
//	}
//
// Where the lobby is full, the oldest connection is closed: it gives way. Nobody gives way in the
// first tenth of a second; the listener's queue holds the others meanwhile. Rules, and what is
// wrong without them:
//
//   - The oldest gives way. If the newest were refused, idle connections would keep everybody out
//     for as long as a proof may take.
//   - Nobody gives way at once. If many ranks connect at the same time, each new one would end the
//     one before it, which was about to prove itself.
//   - Enter waits without taking the next connection. If it closed what has no room, an honest
//     dialler would use up its attempts while the first tenth of a second lasts.
//
// So a stranger that connects without end gets as many connections through as there is room, ten
// times a second. An honest dialler that is crowded out tries again.
package lobby
