// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import (
	"cmp"
	"net"
	"time"

	"weft/internal/env"
)

// Times are the time limits that the kernel is given.
type Times struct {
	Silence  time.Duration // for how long data may go unacknowledged
	Idle     time.Duration // before the first probe
	Interval time.Duration // between probes
	Count    int           // of probes, where there is no limit to silence
}

// For returns the times with which a vanished peer is detected within after; 0 means
// env.DefaultDeadAfter.
func For(after time.Duration) Times {
	after = cmp.Or(after, env.DefaultDeadAfter)
	t := Times{Silence: after * 4 / 5, Idle: max(time.Second, (after / 4).Truncate(time.Second)), Interval: max(time.Second, (after / 8).Truncate(time.Second))}
	t.Count = max(1, int((t.Silence-t.Idle+t.Interval-1)/t.Interval))
	return t
}

// Enable lets the kernel fail a connection whose other end has vanished, within about after; 0
// means env.DefaultDeadAfter. It leaves connections that are not TCP alone, and ignores options
// that the kernel refuses.
func Enable(c net.Conn, after time.Duration) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	times := For(after)
	_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: times.Idle, Interval: times.Interval, Count: times.Count})
	limitSilence(t, times.Silence)
}
