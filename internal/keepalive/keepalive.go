// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package keepalive has the kernel notice that a machine, or the link to it, has vanished: nobody
// says so, there is only silence.
//
//	after, err := env.DeadAfter.Value()
//	keepalive.Keep(conn, after)                // conn fails within that time
//
// Two things go on at a connection whose other end has vanished. If something was written that
// nobody acknowledges, the kernel sends it again and again; it gives up when that has gone on for
// [Times.Silence]. (Where the system has no such limit, this may take minutes.) If not, it probes
// the other end, first when nothing has come for Times.Idle, then each Times.Interval; it gives up
// at the first probe that finds Times.Silence over or, where the system has no such limit, when
// Times.Count probes were not answered. With a silence of four fifths of the whole, and an eighth
// of it between probes, both are over in time, but for what whole seconds, the grain of probes, add
// to very short ones.
//
// A process that ends, or is killed, is another matter: its kernel says so at once. One that is
// stopped is not noticed, since its kernel answers; but if so much was sent to it that its kernel
// takes no more, it counts as vanished after Silence, as far as the system has that limit. So Keep
// is not for connections within a machine.
//
// All functions may be called by any goroutine, and none blocks.
package keepalive

import (
	"cmp"
	"net"
	"time"

	"weft/internal/env"
)

// Times are what the kernel is told.
type Times struct {
	Silence  time.Duration // for how long data may go unacknowledged
	Idle     time.Duration // before the first probe
	Interval time.Duration // between probes
	Count    int           // of probes, where there is no limit to silence
}

// For returns the times for something that is to be noticed within after; 0 means
// env.DefaultDeadAfter.
func For(after time.Duration) Times {
	after = cmp.Or(after, env.DefaultDeadAfter)
	t := Times{Silence: after * 4 / 5, Idle: max(time.Second, (after / 4).Truncate(time.Second)), Interval: max(time.Second, (after / 8).Truncate(time.Second))}
	t.Count = max(1, int((t.Silence-t.Idle+t.Interval-1)/t.Interval))
	return t
}

// Keep has the kernel give up a connection whose other end has vanished, within about after; 0
// means env.DefaultDeadAfter. Connections that are not of TCP are left alone, and what the kernel
// refuses stays as it is.
func Enable(c net.Conn, after time.Duration) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	times := For(after)
	_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: times.Idle, Interval: times.Interval, Count: times.Count})
	limitSilence(t, times.Silence)
}
