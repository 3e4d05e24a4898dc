// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
)

// A page of a stranger that a browser has open can make its own name point to this machine ("DNS
// rebinding"): then the browser lets it read what is served here, since it is of the same name. But
// the request still says that name. So the live page is only for names that nobody else can have.
// An address is no name, and cannot be pointed elsewhere.

// serves reports whether the page is for requests to a host, which is what they say in the header
// Host.
func (o *Observer) serves(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	host = strings.TrimSuffix(host, ".")
	if host == "" {
		return false
	}
	legal := append([]string{"localhost"}, o.cfg.Hosts...)
	if name, err := os.Hostname(); err == nil {
		short, _, _ := strings.Cut(name, ".")
		legal = append(legal, name, short)
	}
	if name := o.host.Load(); name != nil {
		legal = append(legal, *name)
	}
	for _, name := range legal {
		if name == anyHost || strings.EqualFold(host, strings.TrimSuffix(name, ".")) {
			return true
		}
	}
	return false
}

// forHosts lets requests to the page's own hosts through, and refuses others.
func (o *Observer) forHosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !o.serves(r.Host) {
			http.Error(w, fmt.Sprintf("This page is not for the host %q. It is for addresses, localhost, the machine's name, the name that Listen was given, "+
				"and the names in observe.Config.Hosts.", r.Host), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
