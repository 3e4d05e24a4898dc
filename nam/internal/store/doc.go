// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package store keeps network-attached memory in a directory: one memory-mapped file per allocation
// (several if it is distributed), and the metadata in a bbolt database. Any number of processes may
// have one directory open at a time. There is no server.
//
//	creating ──commit──▶ ready ──remove──▶ deleting ──last user gone──▶ (nothing)
//	    └────── its creator died or failed: reclaimed ──────────────────────▲
//	             ready and volatile, and its last user died: reclaimed ─────┘
//
// nam/README.md has the layout, the argument, and the numbered protocols with the crash that each
// step prevents.
//
// The database has an entry for each allocation. A file without an entry is an orphan. An orphan is
// removed only if its header says that the allocation was never complete, or was removed. All other
// orphans are set aside until Restore or Drop.
//
// Invariants:
//
//   - The header of an allocation's first file says all that its entry says. A header that is not
//     flagged volatile belongs to a committed allocation.
//   - Files and entries of allocations are created and removed only while the exclusive store lock
//     is held.
//   - Each process that has an allocation mapped holds a shared flock on its first file. The kernel
//     drops that lock when the process dies. So an exclusive flock succeeds if and only if no live
//     process uses the allocation.
//   - An entry is in state ready only if all its files exist at full size with their blocks
//     reserved.
//   - The epoch count in the first file's header covers only epochs whose data is complete in the
//     mapping.
//
// Lock order, outermost first:
//
//	Store.mu                 this process: one metadata transaction or change of handles at a time
//	  DIR/lock               flock: shared for reading metadata, exclusive for changing it; bounded wait
//	    meta.db              bbolt's own flock, taken inside the above and therefore always free
//	      DIR/alloc/*.seg    flock: shared by users; exclusive only tried, never waited for
//
// All methods may be called concurrently. Methods that touch metadata block on the disk, and at
// most Config.LockWait for other processes. Region, Epochs and Raise never block. Release may wait
// for the disk.
package store
