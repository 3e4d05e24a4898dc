// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package waits knows which goroutines of the process sleep in waits of weft's, and so whether any
// other goroutine may still act. Every wait of packages comm and task that may last is counted by
// somebody:
//
//	count := waits.NewCounter() // of a pooled object
//	count.Sleep()
//	<-ch
//	count.Wake()
//
// or by a [Party], which counts what its own lists have anyway: ranks whose operations are queued,
// slots that are parked. [Take] compares that with all goroutines there are. README.md says why a
// deadlock that is found so is one.
//
// The package also says who waits for what, where a run ends by its context: see [End].
//
// All functions may be called by any goroutine. Sleep and Wake do not block.
//
// Lock order:
//
//	parties.mu is held for a few instructions; no function of a party is called under it
package waits
