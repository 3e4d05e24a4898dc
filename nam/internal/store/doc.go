// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package store keeps network-attached memory in a directory: one memory-mapped file per allocation
// and the metadata in bbolt. Any number of processes may have one directory open at a time; there
// is no server.
//
// The layout, the states of an allocation, who owns what in each of them and the numbered protocols
// with the crash that each step prevents are in nam/README.md. In short:
//
//	creating ──commit──▶ ready ──remove──▶ deleting ──last user gone──▶ (nothing)
//	    └────── its creator died or failed: reclaimed ──────────────────────▲
//	             ready and volatile, and its last user died: reclaimed ─────┘
//
// An allocation without a record is removed only if its header says that it was never complete, or
// was removed; else it is set aside, until Restore or Drop.
//
// Invariants:
//
//   - The header of an allocation's first file says all that its record says; only a committed one
//     is not flagged volatile.
//   - Directory changes (files of an allocation, its record) happen only while the exclusive store
//     lock is held.
//   - Whoever has an allocation mapped holds a shared flock on its first file. The kernel drops
//     that lock when the process dies, so "can I lock it exclusively?" is the question whether
//     anybody alive uses it.
//   - A record is in state ready only if all its files exist at full size with their blocks
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
// All methods may be called concurrently. Methods that touch metadata block on the disk and at most
// Config.LockWait for other processes. Region, Epochs and Raise never block. Release may wait for
// the disk.
package store
