// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package bind divides the processors of a machine among the ranks that a launcher starts on it.
//
//	m, err := bind.Here()                    // what this process may use, and how it is built
//	p, err := bind.Parse("auto")
//	sets, why, err := p.Divide(m, 4)         // by rank; nil: ranks are not bound, and why
//	restore, err := bind.Thread(sets[0])     // this thread, and what it starts
//	... os.StartProcess(...)
//	restore()
//
// A rank inherits the affinity mask of the thread that starts it. The caller has locked its goroutine to the thread.
//
// Processors are put in an order in which neighbours are near: by package, node of memory, core, and hardware thread of the core. Ranks get
// contiguous parts of it, whose lengths differ by one at most. As long as there is a core for each rank, cores are divided, each with all of its
// threads; only then threads.
//
// All of it is pure but Here and Thread. Nothing here waits or has state.
package bind
