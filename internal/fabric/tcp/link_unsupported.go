//go:build !linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import "net"

func limitUnacknowledged(*net.TCPConn) {}
