// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package nam is network-attached memory: windows whose memory belongs to a store. The memory
// outlives the program that made it, and other programs find it by name.
//
//	s, err := nam.Open("", nam.Config{})                      // the default directory; nothing to start
//	w, err := s.Allocate(c, n*8, 8, nam.Persistent)           // collective; n float64 for this rank
//	fmt.Println(w.Info().Get("psnam_window_name"))
//	w.Fence(0)
//	w.Put(comm.Of(block), c.Rank(), 0)
//	w.Fence(0)                                                // now it survives kill -9
//	w.Free()
//
//	a, err := s.Attach(c, name, nam.ReadOnly(true))           // another program, any number of ranks
//	for r := range a.RemoteSize() {
//		size, unit := a.Region(r)
//		...
//		a.Fence(0); a.Get(comm.Of(buf), r, 0); a.Fence(0)
//	}
//
// # Terms
//
// A store is a directory: one memory-mapped file per allocation, and the metadata in a database
// next to them. The manager grants allocations; here the manager is embedded in the process. An
// allocation is divided into segments, and a window's regions are parts of segments. Each region
// belongs, by convention only, to one rank of the group that made the window. README.md describes
// the layout and the protocols.
//
// Options have typed forms and the string forms of ParaStation MPI (psnam_manifestation,
// psnam_consistency, psnam_structure), which FromInfo parses. Without options a window is libnam,
// volatile, managed_contiguous.
//
// # States of an allocation
//
//	creating → ready → deleting → gone
//
// Only a ready allocation can be attached to by name. The next Open removes what a crash leaves: an
// allocation that was being created or deleted, and a volatile one whose last user died.
//
// # Invariants
//
//   - When a fence completes at any rank of the group that made the window, Epochs already counts
//     it, for every process.
//   - The data of all epochs that Epochs counts is in the mapping. So it survives the death of all
//     processes; with SyncEpoch it is on the disk.
//   - After the machine has stopped, Attach to a window whose data may be missing returns
//     ErrUnsynced.
//   - Files without a database entry are kept, unless their window was removed, or never complete.
//   - All space of a window is reserved before Allocate returns.
//   - A collective call fails on all ranks or on none, and a failed call leaves nothing behind.
//
// # Concurrency
//
// Any goroutine may call any method. Allocate, Attach, SetInfo, Free and the methods of Store block
// on the disk, on other ranks, and for a bounded time on other processes. Put and Get are one copy,
// and do not block beyond page faults. Accumulate waits for other Accumulates on the same bytes,
// also those of other processes. With SyncEpoch each rank's window owns one goroutine, until Free,
// that waits for the disk.
//
// Lock order: rma's, then the store's (see package nam/internal/store). No lock of this package is
// held while another is taken.
package nam
