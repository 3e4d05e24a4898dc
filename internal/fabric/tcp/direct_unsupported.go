//go:build !linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"net"

	"weft/internal/fabric"
)

// direct is not used on this system: everything goes by the writer.
type direct struct{}

func newDirect(net.Conn) *direct { return nil }

func (*direct) write(uint32, *fabric.Frame) (int, error) { return 0, nil }

func limitUnacknowledged(*net.TCPConn) {}
