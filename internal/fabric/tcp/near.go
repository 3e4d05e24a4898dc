// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import "net"

// isNear reports whether a connection does not leave the machine: it goes to the address that it comes from, or within the loopback interface.
func isNear(c net.Conn) bool {
	here, ok := c.LocalAddr().(*net.TCPAddr)
	there, too := c.RemoteAddr().(*net.TCPAddr)
	return ok && too && (here.IP.Equal(there.IP) || here.IP.IsLoopback() && there.IP.IsLoopback())
}
