// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package launch lets the processes of a job find each other, and learn of each other's ends.
//
// A launcher (package job, below this one, and "weft run") makes a [Server] and starts each rank
// with the environment of [Server.Identity]. A rank calls [Detect] to find out whether a launcher
// has started it, and joins:
//
//	identity, err := launch.Detect()               // nil: no launcher has started this process
//	c, err := identity.Join(ctx)
//	peers, err := c.Meet(ctx, map[string][]byte{"tcp": address})
//	c.Watch(func(err error) { ... })               // a *Death of another rank, or the *Abort of the job
//	...
//	err = c.Leave()
//
// Ranks exchange values over the launcher's socket: by [Client.Meet], [Client.Exchange] and Fence,
// which all ranks call, and by Put and Get, which some may call. They are for start-up: few and
// small values.
//
// A rank that has joined takes part in the job. It ends the job if it ends without [Client.Leave],
// or with an exit status other than 0. A process that never joins may be any program.
//
//	absent → joined → left → ended
//	absent, joined → ended
//
// Invariants:
//   - Each wait ends: with the value, with the [Death] of the rank that owed it, with the [Abort]
//     of the job, with [ErrLauncherLost], or with the caller's context.
//   - Watch reports each death once. A rank's death is reported before a wait fails because of it,
//     unless the rank had left before.
//   - Nothing from the other end of a connection is used before it is checked, or before the other
//     end has proved that it knows the job's secret.
//   - The job directory has mode 0700; the socket and the secret's file 0600. The launcher removes
//     them at the end of the job. If the launcher is gone, each process that notices that removes
//     them.
//   - A rank whose launcher is gone ends within two seconds.
//
// Lock order, of a Client and of a Server:
//
//	Client.watchMu → Client.mu
//	Client.wmu
//	Server.mu → conn.mu
//
// All methods of Client and Server may be called concurrently. Join, Get, Exchange, Meet and Fence
// wait for other processes, Settle waits for a rank's connection to end, Leave and Server.Close
// wait for their own goroutines, and DismissHosts waits a moment. The other methods do not wait.
//
// README.md has the protocol.
package launch
