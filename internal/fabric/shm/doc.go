// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package shm is the fabric between the processes of one node. Frames go through rings in memory
// that two processes have mapped. It works on Linux; elsewhere New returns [fabric.ErrUnsupported].
//
//	// address(rank) is the string that ep.Addr() of that rank returned
//	ep, _ := shm.New(shm.Config{Rank: 1, Size: 4, Lookup: address})
//	ep.Bind(handler, engine) // a progress.Engine of ep.Sources()
//	ep.Send(2, fabric.Frame{Data: bytes})
//
// # The states of an inbox
//
// Each rank owns one inbox. A producer (a rank that sends to the owner) uses three things of it:
//
//	producer                       the owner's inbox          owner
//
//	Send: writes the frame   --->  a ring for each producer   Poll: reads the frames
//	      reads the word     --->  the doorbell word          Arm, disarm: change the word
//	      writes one byte    --->  the pipe, its doorbell     the doorbell goroutine reads it
//
// The doorbell word has two bits. Bit 1, disarmed, is set while a goroutine of the owner polls.
// Bit 0, rung, is set from when a producer rings until the doorbell goroutine is up:
//
//	                  disarm: += 2
//	0 armed   ----------------------------->  2 disarmed
//	          <-----------------------------
//	                  R1, Arm: -= 2                ^
//	 | ^                                           |
//	 | | S1: clear bit 0                           | S1: clear bit 0
//	 v |                                           |
//	 W2: 0 to 1
//	                  disarm: += 2
//	1 rung    ----------------------------->  3 rung and disarmed
//	          <-----------------------------
//	                  R1, Arm: -= 2
//
//	0  no goroutine polls, and the doorbell goroutine sleeps: the next producer must ring
//	1  a producer has rung, and the doorbell goroutine is on its way: no other producer rings
//	2  a goroutine polls: no producer rings
//	3  a goroutine polls, and the doorbell goroutine is on its way: no producer rings
//
// No frame stays in a ring while its owner sleeps. The producer writes the frame first and reads
// the word second. The goroutine that stops polling changes the word first and checks the rings
// second. So there are two cases. If the producer reads the word before that change, its frame was
// in the ring before the check, and the check finds the frame. If the producer reads the word after
// the change, it finds 0 and rings, or it finds 1, and the doorbell goroutine is on its way
// already. In state 1 there is no check: the doorbell goroutine reads the frame. That goroutine
// clears bit 0 before it has the rings polled, so that poll sees a later frame, or the later
// frame's producer rings again.
//
// # The inbox
//
// An inbox is anonymous memory (mode 0600, without a name, sealed in size), so nothing is left when
// the processes end, however they end. A producer opens it by the owner's process number and
// descriptor. It shows no credentials: the kernel admits processes of the same user only. The inbox
// has a ring for each rank that sends, or that may join the job and send (Config.Room); untouched
// pages cost nothing. It also has the doorbell word and the counters of shared transfers.
//
// # A ring
//
// A ring has one producer and one consumer. A frame begins at a multiple of a cache line. Its first
// word is never zero and is written last: length, kind, origin, target, and a bit that is always
// set. The consumer checks that word only, so a frame of up to eight bytes of data moves one cache
// line. After the frame, the consumer sets the first word of each of the frame's lines to zero:
// payload of one lap must not look like a frame in the next.
//
// The consumer publishes its position only after a quarter of the ring, or when the producer waits.
// The producer reads that position only when the ring seems full. So the two share no line that is
// written for each frame.
//
// # Polling, and the doorbell
//
// The endpoint is one source of its rank's engine (package progress). One goroutine of the process
// at a time has the turn, which is the right to poll. If none polls, the endpoint's own goroutine,
// the doorbell goroutine, sleeps in the poller of Go's runtime, on the pipe.
//
//	W1 the producer publishes a frame (atomic)          R1 Arm: word -= 2
//	W2 it loads the word; if zero: 0 to 1, and it       R2 if that makes it zero, Arm checks the rings
//	   writes a byte to the pipe                           once more, and returns SomethingHere if
//	                                                       there is a frame
//
//	S1 the doorbell goroutine, up, clears bit 0         S2 it calls Progress.Ring, which polls, or
//	                                                       leaves the poll to the goroutine that has
//	                                                       the turn
//
// While a goroutine polls, a frame costs its producer one load of the word. Each rule prevents a
// bad schedule:
//
//   - W2 before W1: the owner polls between the two and finds nothing. The frame stays in the ring,
//     and every goroutine sleeps.
//   - R2 before R1, or no R2: the producer of a frame that arrives between the two has read that a
//     goroutine polls, and does not ring.
//   - W2 without the change of the word: every producer that sends to a sleeping rank makes a
//     system call until the doorbell goroutine is up.
//   - No S1: the word stays odd, and no producer rings again.
//   - S1 after S2: a goroutine that polled meanwhile leaves while the word is odd. It leaves the
//     frames to the doorbell goroutine, which has gone to sleep because a goroutine polled.
//
// A poll disarms only if there is something to deliver. A loop of polls that disarmed each time
// would take the word's cache line away from a producer, which would wait for it. Between two polls
// the word is zero for some tens of nanoseconds; a producer waits longer than that before it rings
// (doorbellSpin). If a frame arrives after a poll while the word is zero, W2 wakes the doorbell
// goroutine, which leaves the frame to the next poll.
//
// If Arm returns SomethingHere too often, the engine has the endpoint do W2 itself (RingDoorbell)
// before it gives up the turn: after that, Close may have unmapped the word. For the same reason a
// sender rings before it releases the lock of its peer: after that, Close may unmap the peer's
// inbox.
//
// # A full ring
//
// Send and Push never wait. A frame that does not fit is queued at the sender. The goroutine that
// polls there moves the queue to the ring:
//
//	F1 the producer tries, and finds no room   C1 the consumer has taken a frame, and
//	                                              publishes its position, if that is due
//	F2 it sets the ring's waiting word         C2 it loads the waiting word; if that is set:
//	F3 it tries once more                      C3 it clears the word and publishes its position
//	                                           C4 it wakes the producer's side as W2 does
//
// Without F3, or with F3 before F2, the consumer may empty the ring and stop before the word is
// set. F3 finds room in an empty ring even without C1: the published position lags by at most a
// quarter of the ring, and a frame with the rest of the lap before it is shorter than half a ring.
// C3 publishes, so that the producer does not wake for as little room as before.
//
// # Large transfers
//
// A transfer goes through the ring in pieces, so that both sides copy at once. A very large one
// (Config.SingleCopy) is copied once, where the kernel lets a process read the other's memory
// (process_vm_readv; tried when the two connect). Push sends an offer with the address, and the
// receiver copies from there. If the transfer is longer than one chunk, the receiver first invites
// the sender to help: a counter in the inbox hands out the chunks to both sides. The side that ends
// the last chunk tells the other. So a transfer does not wait for a side that gets no processor. A
// counter is reused by later transfers, and therefore has a generation: a helper that starts late
// finds another generation, and takes no chunk.
//
// The goroutine that has polled makes these copies after it has released the turn (Source.Work), so
// that others can poll meanwhile.
//
// # Loss
//
// A process descriptor (pidfd) of each connected peer reports the end of its process. The frames
// that the peer put into its ring before are still delivered. If no goodbye is among them, the peer
// is lost. The goroutine that learns of an end rings the doorbell whatever the doorbell word is: a
// process may die between its change of the word and its byte, and then the word stays odd, and no
// producer would write a byte. If a process dies there with the first frame that it ever sends, no
// rank watches it; the launcher reports its end, and Drop rings the doorbell. (If a process is
// stopped there, and not dead, the doorbell goroutine sleeps until the process continues.)
//
// # Exploration
//
// With the build tag explore, the words, locks and doorbells are those of package xatomic.
// TestExplore... runs the code of this package, with small rings and no system calls, in every
// order of its steps (internal/explore); killed processes are among the programs. TestPlantedBugs
// leaves out each of the steps above, or swaps two, and requires that the exploration finds it.
// Files with that tag have the differences: machine_explore.go and sizes_explore.go replace
// machine.go, reach.go and sizes.go. Large transfers are not explored.
//
// # Trust
//
// The other processes are of the same user, but may be broken. Each length and kind is read once
// and checked. A peer can write only rings and counters. Addresses in frames are used only for
// copies by the kernel, into memory that is expected to be written. A peer whose ring makes no
// sense is lost.
//
// Lock order: the turn to poll, peer.mu, bulk.mu. No lock but the turn is held while the handler or
// done is called.
package shm
