// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package mux chooses a fabric for each pair of ranks, and makes one endpoint of several.
//
//	w, err := mux.WishesFromEnv(os.Getenv)               // PSP_SHM, PSP_TCP, ..., WEFT_FABRIC
//	offer := mux.Offer{"tcp": {Priority: w["tcp"], Addr: addr}}
//	...                                                  // ranks exchange their offers, as Encode makes them
//	name, err := mux.Choose(mux.Side{0, offer, node}, mux.Side{1, other, othersNode})
//	ep := mux.New(0, []fabric.Endpoint{tcp, shm, shm, tcp}) // by rank
//
// Invariants:
//   - Both ranks of a pair choose the same fabric: the choice depends on what both have offered, and not on who chooses.
//   - A pair uses one fabric from the first frame to the last. So the order of its frames is that of its fabric, and a transfer is
//     expected where its bytes come.
//   - Nothing is added to the way of a frame but the choice of an endpoint from a slice: handlers are bound to the fabrics themselves.
//
// The slice is constant, and the fabrics do their own locking; so any goroutine may call anything, as with every endpoint. Close
// closes all fabrics at once, since each may wait for its peers.
package mux
