// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package launch is how the processes of a job find each other.
//
// A launcher (package job, below this one, and "weft run") makes a [Server] and starts each rank
// with the environment that [Server.Place] gives. A rank asks [Detect] whether it was started so,
// and joins:
//
//	place, err := launch.Detect()                  // nil: nobody has started this process as a rank
//	c, err := place.Join(ctx)
//	peers, err := c.Meet(ctx, map[string][]byte{"tcp": address})
//	c.Watch(func(err error) { ... })               // a *Death of another rank, or the *Abort of the job
//	...
//	err = c.Leave()
//
// What ranks tell each other goes over the launcher's socket: [Client.Meet] and [Client.Exchange],
// which all ranks call; Put and Get, which need not be called by all; Fence. It is for setting up:
// the values are small and few.
//
// A rank that joins takes part from then on; it ends the job if it ends without [Client.Leave], or
// with an exit status other than 0. A process that never joins may be anything.
//
//	absent → joined → left → ended
//	absent, joined → ended
//
// Invariants:
//   - Each wait ends: with what is waited for, with the [Death] of the rank that owed it, with the
//     [Abort] of the job, with [ErrLauncherLost], or with the caller's context.
//   - Watch tells each death once, and that of a rank is known before a wait fails for it, unless
//     the rank has left.
//   - Nothing from the other end of a connection is used before it is checked, and nothing before
//     the other end has proved that it knows the job's secret.
//   - The job directory has mode 0700; the socket and the secret's file 0600. They go with the job:
//     the launcher removes them, or whoever notices that it is gone.
//   - A rank whose launcher is gone ends within two seconds.
//
// Lock order, of a Client and of a Server:
//
//	Client.watchMu → Client.mu
//	Client.wmu
//	Server.mu → conn.mu
//
// All methods of Client and Server may be called concurrently. Join, Get, Exchange, Meet and Fence
// wait for others; Leave and Server.Close wait for goroutines of their own; the rest does not wait.
//
// README.md has the protocol.
package launch
