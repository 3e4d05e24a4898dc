// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"weft/internal/env"
)

// Listen listens for the live page at a TCP address, such as localhost:6060. In a process that is
// one of several ranks, the port is the port of the address plus the rank, so all ranks can use the
// same address; each page then has links to the other ranks' pages, on the same machine. Port 0
// means any free port, and there are no links. The caller serves Handler there, and closes the
// listener.
//
// With an address without a host, such as :6060, all machines that can reach this one by any
// network can read the page. Listen warns of that in one line, to Config.Logger or on the standard
// error.
func (o *Observer) Listen(address string) (net.Listener, error) {
	rank, ranks := env.RankAndSize()
	own, ports, err := portsOf(address, rank, ranks)
	if err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	l, err := net.Listen("tcp", own)
	if err != nil {
		return nil, err
	}
	if ports != nil {
		o.ports.Store(&ports)
	}
	if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
		o.host.Store(&host)
	}
	o.warnOpen(l.Addr())
	return l, nil
}

// warnOpen warns, once for a job, if the page is served on all networks.
func (o *Observer) warnOpen(at net.Addr) {
	a, ok := at.(*net.TCPAddr)
	if !ok || !a.IP.IsUnspecified() || !env.IsReporter() {
		return
	}
	const text = "the live page is served on all interfaces: every machine that can reach this one can read it"
	if o.cfg.Logger != nil {
		o.cfg.Logger.Warn(text, "port", a.Port)
		return
	}
	fmt.Fprintf(os.Stderr, "weft: %s; localhost:%d would serve this machine only\n", text, a.Port)
}

const maxPort = 1<<16 - 1

// portsOf returns the address of a rank's page, and the ports of all ranks' pages if they are known
// and there are several.
func portsOf(address string, rank, ranks int) (own string, ports []int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", nil, err
	}
	port, err := net.LookupPort("tcp", text)
	if err != nil {
		return "", nil, err
	}
	if port == 0 || rank < 0 {
		return address, nil, nil
	}
	if port+ranks-1 > maxPort {
		return "", nil, fmt.Errorf("the pages of %d ranks need the ports from %d to %d; legal are ports up to %d", ranks, port, port+ranks-1, maxPort)
	}
	if ranks > 1 {
		for r := range ranks {
			ports = append(ports, port+r)
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(port+rank)), ports, nil
}
