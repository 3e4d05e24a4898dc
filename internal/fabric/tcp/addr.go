// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"weft/internal/env"
)

// ErrNetwork: no address of this machine is in a configured network, or the configured text is not
// a network. Nothing is lost.
var ErrNetwork = errors.New("no such network here")

// maxAddrs is the largest number of addresses that a rank tells the others.
const maxAddrs = 8

func init() {
	env.Networks.Check = func(text string) error {
		_, err := addresses(text)
		return err
	}
}

// local is an address of this machine.
type local struct {
	name   string // of the interface
	prefix netip.Prefix
}

func (l local) addr() netip.Addr { return l.prefix.Addr() }

// locals returns the addresses of the interfaces that are up, except those that other machines
// cannot use. Those of the loopback interface are last.
func locals() ([]local, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	return localsOf(ifs, (*net.Interface).Addrs), nil
}

func localsOf(ifs []net.Interface, addrs func(*net.Interface) ([]net.Addr, error)) []local {
	var here, loop []local
	for _, i := range ifs {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		list, _ := addrs(&i) // an error: it went away
		for _, a := range list {
			p, err := netip.ParsePrefix(a.String())
			switch {
			case err != nil:
			case p.Addr().IsLoopback():
				loop = append(loop, local{i.Name, p})
			case p.Addr().IsGlobalUnicast():
				here = append(here, local{i.Name, p})
			}
		}
	}
	// IPv4 first: if only one of the two works, it is mostly IPv4.
	slices.SortStableFunc(here, func(a, b local) int { return a.addr().BitLen() - b.addr().BitLen() })
	return append(here, loop...)
}

// addresses returns this machine's addresses in some networks.
func addresses(networks string) ([]netip.Addr, error) {
	all, err := locals()
	if err != nil {
		return nil, err
	}
	return choose(all, networks)
}

// choose returns the addresses that are in networks. If networks is empty, it returns all except
// those of the loopback interface, or the first of those if there are no others.
func choose(all []local, networks string) ([]netip.Addr, error) {
	var list []netip.Addr
	if networks == "" {
		for _, l := range all {
			if !l.addr().IsLoopback() || len(list) == 0 {
				list = append(list, l.addr())
			}
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("%w: no interface is up", ErrNetwork)
		}
		return list[:min(len(list), maxAddrs)], nil
	}
	for _, want := range strings.Split(networks, ",") {
		if !slices.ContainsFunc(all, func(l local) bool { return l.in(want) }) {
			return nil, fmt.Errorf("%w: %s=%q: no interface or address here matches %q; there are %s", ErrNetwork, env.Networks.Name, networks, want, describe(all))
		}
		for _, l := range all {
			if l.in(want) && !slices.Contains(list, l.addr()) {
				list = append(list, l.addr())
			}
		}
	}
	return list[:min(len(list), maxAddrs)], nil
}

func (l local) in(want string) bool {
	if l.name == want {
		return true
	}
	if a, err := netip.ParseAddr(want); err == nil {
		return a.Unmap() == l.addr()
	}
	p, err := netip.ParsePrefix(want)
	return err == nil && p.Contains(l.addr())
}

func describe(all []local) string {
	var list []string
	for _, l := range all {
		list = append(list, l.name+" "+l.prefix.String())
	}
	return strings.Join(list, ", ")
}

// listen listens at the configured address, and returns the addresses that the other ranks use.
func listen(c *Config) (net.Listener, []string, error) {
	where := c.Listen
	var list []netip.Addr
	if where == "" && (c.Everywhere || c.Networks != "") {
		var err error
		if list, err = addresses(c.Networks); err != nil {
			return nil, nil, err
		}
		where = ":0"
		if len(list) == 1 {
			where = netip.AddrPortFrom(list[0], 0).String()
		}
	} else if where == "" {
		where = "127.0.0.1:0"
	}
	ln, err := net.Listen("tcp", where)
	if err != nil {
		return nil, nil, err
	}
	if list == nil {
		return ln, []string{ln.Addr().String()}, nil
	}
	port := uint16(ln.Addr().(*net.TCPAddr).Port)
	var addrs []string
	for _, a := range list {
		addrs = append(addrs, netip.AddrPortFrom(a, port).String())
	}
	return ln, addrs, nil
}

// targets returns the addresses of a peer in the order in which they should be tried.
func targets(addrs string) []string {
	list := strings.Split(addrs, ",")
	if len(list) == 1 {
		return list // reading this machine's addresses takes longer than connecting
	}
	all, _ := locals() // an error: the order stays
	return order(list[:min(len(list), maxAddrs)], all)
}

// order sorts the addresses of a peer. Addresses in a network of this machine come first. This
// machine's own addresses come last: a bridge for containers has the same address on every machine.
func order(list []string, all []local) []string {
	rank := func(s string) int {
		ap, err := netip.ParseAddrPort(s)
		if err != nil {
			return 1
		}
		r := 1
		for _, l := range all {
			if l.addr() == ap.Addr() {
				return 2
			}
			if l.prefix.Contains(ap.Addr()) {
				r = 0
			}
		}
		return r
	}
	slices.SortStableFunc(list, func(a, b string) int { return rank(a) - rank(b) })
	return list
}
