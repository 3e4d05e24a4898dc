// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package waits counts the goroutines that sleep in waits of weft's, and so tells whether any other
// goroutine of the process may still act. Every wait of packages comm and task that may last is
// counted, by a counter:
//
//	count := waits.NewCounter() // of a pooled object
//	count.Sleep()
//	<-ch
//	count.Wake()
//
// or by a [Party], which counts the entries of lists that it has anyway: ranks whose operations are
// queued, slots that are parked. [Take] compares the sum with the number of all goroutines.
// README.md proves that a deadlock found in this way is one.
//
// The package also reports which goroutine waits for what when a context ends a run: see [End].
//
// All functions may be called by any goroutine. Sleep and Wake do not block.
//
// Lock order:
//
//	parties.mu is held for a few instructions; no function of a party is called under it
package waits
