// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"weft/internal/env"

	"github.com/stretchr/testify/require"
)

// localsAs parses addresses of this machine from texts such as "eth0 10.0.0.1/8".
func localsAs(texts ...string) (list []local) {
	for _, t := range texts {
		name, prefix, _ := strings.Cut(t, " ")
		list = append(list, local{name, netip.MustParsePrefix(prefix)})
	}
	return list
}

func cidr(t *testing.T, text string) net.Addr {
	ip, n, err := net.ParseCIDR(text)
	require.NoError(t, err)
	n.IP = ip
	return n
}

// locals returns, of the interfaces that are up, the addresses that other machines can use, IPv4
// first, and those of the loopback interface last.
func TestLocals(t *testing.T) {
	ifs := []net.Interface{
		{Name: "lo", Flags: net.FlagUp | net.FlagLoopback}, {Name: "down"}, {Name: "gone", Flags: net.FlagUp}, {Name: "a", Flags: net.FlagUp}, {Name: "b", Flags: net.FlagUp},
	}
	addrs := map[string][]net.Addr{
		"lo":   {cidr(t, "::1/128"), cidr(t, "127.0.0.1/8")},
		"down": {cidr(t, "10.9.0.1/8")},
		"a":    {cidr(t, "2001:db8::1/64"), cidr(t, "fe80::1/64"), cidr(t, "10.1.0.2/16"), &net.UnixAddr{Name: "odd"}, cidr(t, "10.1.0.1/16")},
		"b":    {cidr(t, "169.254.0.1/16"), cidr(t, "2001:db8::2/64"), cidr(t, "10.2.0.1/16"), cidr(t, "0.0.0.0/0"), cidr(t, "224.0.0.1/4")},
	}
	got := localsOf(ifs, func(i *net.Interface) ([]net.Addr, error) {
		if i.Name == "gone" {
			return nil, errors.New("no such interface")
		}
		return addrs[i.Name], nil
	})
	require.Equal(t, localsAs("a 10.1.0.2/16", "a 10.1.0.1/16", "b 10.2.0.1/16", "a 2001:db8::1/64", "b 2001:db8::2/64", "lo ::1/128", "lo 127.0.0.1/8"), got)
	here, err := locals()
	require.NoError(t, err)
	require.NotEmpty(t, here)
}

func TestNetworks(t *testing.T) {
	all := localsAs("eth0 10.1.0.1/16", "eth1 10.2.0.1/16", "eth0 2001:db8::1/64", "lo 127.0.0.1/8", "lo ::1/128")
	var many, addrs []string
	for i := range maxAddrs + 1 {
		many = append(many, fmt.Sprintf("eth%d 10.%d.0.1/16", i, i))
		addrs = append(addrs, fmt.Sprintf("10.%d.0.1", i))
	}
	for _, row := range []struct {
		all      []local
		networks string
		want     []string
		err      string
	}{
		{all, "", []string{"10.1.0.1", "10.2.0.1", "2001:db8::1"}, ""},
		{all[3:], "", []string{"127.0.0.1"}, ""},
		{localsAs(many...), "", addrs[:maxAddrs], ""},
		{localsAs(many[1:]...), "", addrs[1:], ""},
		{nil, "", nil, "no such network here: no interface is up"},
		{all, "eth0", []string{"10.1.0.1", "2001:db8::1"}, ""},
		{all, "eth1,eth0", []string{"10.2.0.1", "10.1.0.1", "2001:db8::1"}, ""},
		{all, "lo", []string{"127.0.0.1", "::1"}, ""},
		{all, "10.2.0.1", []string{"10.2.0.1"}, ""},
		{all, "::ffff:10.2.0.1", []string{"10.2.0.1"}, ""},
		{all, "10.0.0.0/8", []string{"10.1.0.1", "10.2.0.1"}, ""},
		{all, "10.2.0.0/16,10.0.0.0/8", []string{"10.2.0.1", "10.1.0.1"}, ""},
		{all, "eth1,10.2.0.0/16", []string{"10.2.0.1"}, ""}, // in both networks, but listed once
		{localsAs(many...), "10.0.0.0/8", addrs[:maxAddrs], ""},
		{localsAs(many[1:]...), "10.0.0.0/8", addrs[1:], ""},
		{all[1:2], "eth2", nil, `no such network here: PSP_NETWORK="eth2": no interface or address here matches "eth2"; there are eth1 10.2.0.1/16`},
		{all[:2], "eth0,", nil, `no such network here: PSP_NETWORK="eth0,": no interface or address here matches ""; there are eth0 10.1.0.1/16, eth1 10.2.0.1/16`},
		{all[:1], "10.2.0.0/16", nil, `no such network here: PSP_NETWORK="10.2.0.0/16": no interface or address here matches "10.2.0.0/16"; there are eth0 10.1.0.1/16`},
		{all[:1], "10.1.0.2", nil, `no such network here: PSP_NETWORK="10.1.0.2": no interface or address here matches "10.1.0.2"; there are eth0 10.1.0.1/16`},
	} {
		got, err := choose(row.all, row.networks)
		if row.err != "" {
			require.EqualError(t, err, row.err)
			require.ErrorIs(t, err, ErrNetwork)
			continue
		}
		require.NoError(t, err, row.networks)
		require.Equal(t, strings.Join(row.want, " "), strings.Trim(fmt.Sprint(got), "[]"), row.networks)
	}
	require.NoError(t, env.Networks.Check(""))
	require.NoError(t, env.Networks.Check("127.0.0.0/8"))
	require.ErrorIs(t, env.Networks.Check("127.0.0.0/8,192.0.2.255"), ErrNetwork)
}

// The address at which an endpoint listens, and the addresses that it returns for the others.
func TestListen(t *testing.T) {
	all, err := addresses("")
	require.NoError(t, err)
	some := all[0].String() // an address of this machine
	for _, row := range []struct {
		cfg   Config
		where string // "": everywhere
		addrs []string
	}{
		{Config{}, "127.0.0.1", []string{"127.0.0.1"}},
		{Config{Listen: "127.0.0.2:0"}, "127.0.0.2", []string{"127.0.0.2"}},
		{Config{Listen: "127.0.0.2:0", Everywhere: true, Networks: "127.0.0.1"}, "127.0.0.2", []string{"127.0.0.2"}},
		{Config{Networks: "127.0.0.1"}, "127.0.0.1", []string{"127.0.0.1"}},
		{Config{Networks: "127.0.0.1," + some}, "", []string{"127.0.0.1", some}},
		{Config{Everywhere: true}, "", strings.Fields(strings.Trim(fmt.Sprint(all), "[]"))},
		{Config{Everywhere: true, Networks: "127.0.0.1"}, "127.0.0.1", []string{"127.0.0.1"}},
	} {
		if len(row.addrs) == 1 && row.where == "" || some == "127.0.0.1" && row.cfg.Networks != "" {
			continue // a machine with less than two addresses
		}
		ln, addrs, err := listen(&row.cfg)
		require.NoError(t, err)
		at := ln.Addr().(*net.TCPAddr)
		require.NoError(t, ln.Close())
		if row.where == "" {
			require.True(t, at.IP.IsUnspecified(), "%+v: %v", row.cfg, at)
		} else {
			require.Equal(t, row.where, at.IP.String())
		}
		var want []string
		for _, a := range row.addrs {
			want = append(want, net.JoinHostPort(a, fmt.Sprint(at.Port)))
		}
		require.Equal(t, want, addrs, "%+v", row.cfg)
	}
	for _, cfg := range []Config{{Networks: "nowhere"}, {Everywhere: true, Networks: "nowhere"}} {
		cfg.Size, cfg.Secret = 1, testSecret
		_, err := New(cfg)
		require.ErrorIs(t, err, ErrNetwork)
	}
	e, err := New(Config{Size: 1, Secret: testSecret, Networks: "127.0.0.1,lo"})
	require.NoError(t, err)
	require.Equal(t, strings.Join(e.addrs, ","), e.Addr())
	require.NoError(t, e.Close())
}

// The addresses of a peer, in the order in which they are tried.
func TestOrder(t *testing.T) {
	all := localsAs("eth0 10.1.0.1/16", "eth1 10.2.0.1/16", "docker0 172.17.0.1/16", "br0 10.2.0.9/24", "eth0 2001:db8::1/64")
	for _, row := range []struct {
		list string
		all  []local
		want string
	}{
		{"192.0.2.7:1 10.2.0.7:1 192.0.2.8:1 10.1.0.7:1", all, "10.2.0.7:1 10.1.0.7:1 192.0.2.7:1 192.0.2.8:1"},
		{"172.17.0.1:1 192.0.2.7:1 172.17.0.2:1", all, "172.17.0.2:1 192.0.2.7:1 172.17.0.1:1"},
		// this machine's own, though in the network of another interface
		{"10.2.0.9:1 192.0.2.7:1", all, "192.0.2.7:1 10.2.0.9:1"},
		{"host:1 10.1.0.7:1 10.2.0.1:1 [2001:db8::2]:1", all, "10.1.0.7:1 [2001:db8::2]:1 host:1 10.2.0.1:1"},
		{"10.1.0.1:1 10.1.0.2:1", nil, "10.1.0.1:1 10.1.0.2:1"},
	} {
		require.Equal(t, row.want, strings.Join(order(strings.Fields(row.list), row.all), " "))
	}
	var list []string
	for i := range maxAddrs + 1 {
		list = append(list, fmt.Sprintf("192.0.2.%d:1", 50+i))
	}
	require.Equal(t, list[:maxAddrs], targets(strings.Join(list, ",")))
	require.Equal(t, list[:maxAddrs-1], targets(strings.Join(list[:maxAddrs-1], ",")))
	require.Equal(t, []string{"198.51.100.1:1", "127.0.0.1:1"}, targets("127.0.0.1:1,198.51.100.1:1"), "this machine's own is last")
	require.Equal(t, list[:1], targets(list[0]))
	require.LessOrEqual(t, testing.AllocsPerRun(10, func() { targets(list[0]) }), 2.0, "this machine's addresses are not read")
}
