// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package shm is the fabric between the processes of one node: frames go through rings in memory
// that two processes have mapped. It works on Linux; elsewhere New returns [fabric.ErrUnsupported].
//
//	ep, _ := shm.New(shm.Config{Rank: 1, Size: 4, Lookup: address}) // address(rank) is what ep.Addr() of that rank has said
//	ep.Bind(handler, engine) // a progress.Engine of ep.Sources()
//	ep.Send(2, fabric.Frame{Data: bytes})
//
// # The inbox
//
// Each rank owns an inbox: anonymous memory (mode 0600, without a name, sealed in size), so that
// nothing is left behind however the processes end. Whoever sends to the rank opens it by the
// rank's process and descriptor, and proves by nothing: the kernel lets in processes of the same
// user only. The inbox has a ring for each rank that may send, or may join the job and send
// (Config.Room), of which untouched pages cost nothing, a word that says whether somebody looks at
// the rings, and counters of shared transfers. A pipe wakes the owner.
//
// # A ring
//
// A ring has one producer and one consumer. A frame begins at a multiple of a cache line, with one
// word that is not zero and that is written last: length, kind, origin and target, and a bit that
// is always set. The consumer looks at that word alone, so that a frame of up to eight bytes of
// data moves one line. When the frame is over, the consumer makes the first word of each of its
// lines zero again: what was payload in one lap must not look like a frame in the next. It
// publishes how far it has come only after a quarter of the ring, or when the producer waits, and
// the producer looks there only when the ring seems to be full: the two share no line that is
// written for each frame.
//
// # Who polls
//
// The endpoint is one source of its rank's engine (package progress): one goroutine of the process
// polls the rings at a time, or else the endpoint's own goroutine (the sleeper) sleeps in the
// poller of Go's runtime, on the pipe. The look word tells producers which: it is 2 while the
// source is not armed, plus 1 from when somebody has written to the pipe until the sleeper is up.
// To arm is R1 and R2:
//
//	W1 the producer publishes a frame (atomic)          R1 Arm: word -= 2
//	W2 it loads the word; if zero: 0 → 1, and it        R2 if that makes it zero, Arm looks at the rings once more,
//	   writes a byte to the pipe                           and says SomethingHere if there is a frame
//
//	S1 the sleeper, up, makes the word even             S2 it calls Progress.Ring, which polls, or leaves it to
//	                                                       the goroutine that has the turn
//
// No frame is forgotten: either W2 sees a word that is not zero, and then R1 comes after it, so
// that R2 sees the frame; or it sees zero and wakes. While somebody polls, a frame costs its
// producer one load. What each step prevents:
//
//   - W2 before W1: the poller goes between, finds nothing, and the frame lies there while all
//     sleep.
//   - R2 before R1, or no R2: a frame that comes between has seen that somebody polls.
//   - W2 without its change of the word: everyone who sends to a sleeper makes a system call until
//     it is up.
//   - No S1: the word stays odd, and nobody wakes the sleeper again. S1 behind S2: the goroutine
//     that polled meanwhile leaves while the word is odd, which leaves the frames to the sleeper,
//     and that has gone to sleep because somebody polled.
//
// A poll disarms only if there is something. A loop of polls that did so each time would take the
// word's line away from a producer, which waits for it meanwhile. Between two polls the word is
// zero for some tens of nanoseconds, which a producer outwaits (knockSpin). A frame that comes
// behind a poll finds the word at zero, and W2 wakes the sleeper, which leaves it to the next poll.
//
// When Arm says SomethingHere too often, the engine has the endpoint do what W2 does (Knock),
// before it gives the turn up: behind that, Close may have unmapped the word. So a sender knocks
// before it lets go of the lock of its peer, behind which Close unmaps that peer's.
//
// # A full ring
//
// Send and Push never wait. What does not fit is queued at the sender; the goroutine that polls
// there moves it:
//
//	F1 the producer tries, and finds no room            C1 the consumer has a frame behind it, and publishes its place, if that is due
//	F2 it sets the ring's waiting word                  C2 it loads the waiting word; if that is set:
//	F3 it tries once more                               C3 it clears the word and publishes its place
//	                                                    C4 it wakes the producer's side as W2 does
//
// Without F3, or with F3 before F2, the consumer empties the ring and is gone before the word is
// set. That F3 finds room in a ring that is empty does not depend on C1: the place is published at
// the latest a quarter of a ring behind, and a frame with the rest of the lap before it is less
// than half a ring. C3 publishes so that the producer is not woken for as little room as before.
//
// # Large transfers
//
// A transfer goes through the ring in pieces, so that both sides copy at once. A very large one
// (Config.SingleCopy) is copied once, where the kernel lets a process read the other's memory
// (process_vm_readv; tried when the two connect): Push sends an offer with the address. The
// receiver copies from there; if it is more than one chunk, it first invites the sender to help: a
// counter in the inbox deals out the chunks to both sides. Whoever ends the last chunk says so to
// the other. So a transfer does not wait for a side that gets no processor. A counter is used again
// for later transfers, and so carries a generation: a helper that comes late finds another one, and
// takes nothing.
//
// These copies are made by the goroutine that has polled, without the turn (Source.Work), so that
// others can poll meanwhile.
//
// # Loss
//
// A descriptor of each process that this one is connected with tells when it ends. What it has put
// into its ring before is still delivered. If it has not said goodbye there, it is lost. Who learns
// of an end wakes the sleeper whatever the look word says: the word stays odd when a process dies
// between its change of the word and the byte, and until the sleeper is up nobody else would write
// one. A process that dies so with the first frame that it ever sends is watched by nobody; its end
// is news from elsewhere, upon which Drop wakes the sleeper. (A process that is stopped there, and
// not dead, keeps the sleeper asleep until it goes on.)
//
// # Exploration
//
// With the build tag explore, the words, locks and bells are those of package xatomic, and
// TestExplore... runs the code of this package, with small rings and no system calls, in every
// order of its steps (internal/explore), killed processes among them. TestPlantedBugs leaves out
// each of the steps above, or turns two round, and requires that to be found. Files with that tag
// have what differs: machine.go, reach.go and sizes.go stand against machine_explore.go and
// sizes_explore.go. Large transfers are not explored.
//
// # Trust
//
// The other processes are of the same user, but may be broken: each length and kind is read once
// and checked, and what a peer may write is rings and counters alone; addresses in frames are used
// for copies by the kernel, into memory that is expected to be written. A peer whose ring makes no
// sense is lost.
//
// Lock order: the turn to poll, peer.mu, bulk.mu. No lock but the turn is held while the handler or
// done is called.
package shm
