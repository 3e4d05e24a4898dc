// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package launch

import "net"

// limitUnacknowledged does nothing: the system has its own limit, which may be minutes.
func limitUnacknowledged(*net.TCPConn) {}
