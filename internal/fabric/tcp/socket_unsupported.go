//go:build !linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"net"

	"weft/internal/fabric"
)

// newSocket returns nil: on this system, each connection has a reader and a writer.
func newSocket(*peer, net.Conn) *socket                  { return nil }
func (*socket) startPolling()                            {}
func (*socket) setFull(bool)                             {}
func (*socket) shut(int)                                 {}
func (*socket) silent() bool                             { return false }
func (*socket) close()                                   {}
func (*socket) write(uint32, *fabric.Frame) (int, error) { return 0, nil }
func (*socket) writeAll([]*item) (int, error)            { return 0, nil }

// tuneNear does nothing on this system.
func tuneNear(*net.TCPConn) {}
