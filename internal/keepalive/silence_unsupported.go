//go:build !linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import (
	"net"
	"time"
)

// limitSilence does nothing: the system has a limit, which may be minutes.
func limitSilence(*net.TCPConn, time.Duration) {}
