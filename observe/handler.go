// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"

	"weft/internal/env"
	"weft/observe/internal/page"
)

// Handler returns the live page: the live tasks by state, slot and label, the number of tasks that
// end per second, and the oldest tasks. It answers these paths, relative to its http.StripPrefix:
//
//	/               the page, which refreshes itself every second
//	/state.json     the data of the page
//	/stats.txt      the statistics as a table
//	/profile.pb.gz  the task profile: go tool pprof http://…/profile.pb.gz
//	/graph.svg      the graph, also /graph.dot; with Config.Graph
//
// In a process that is one of several ranks, the page shows this rank's tasks; with
// [Observer.Listen] it has links to the pages of the other ranks.
//
// The host of a request must be an address, localhost, the name of the machine, the host of the
// address of Listen, or a name in Config.Hosts. Other requests are refused, so that foreign pages
// in the same browser cannot read this page.
//
// The page loads nothing from other servers. Requests cost tasks nothing, however frequent they
// are. The page shows labels, source positions and the name of the program: serve it only to
// people who may know them.
func (o *Observer) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:")
		send(w, "text/html; charset=utf-8", func(b io.Writer) error {
			_, err := b.Write(page.HTML)
			return err
		})
	})
	mux.HandleFunc("GET /state.json", func(w http.ResponseWriter, _ *http.Request) {
		send(w, "application/json", func(b io.Writer) error { return json.NewEncoder(b).Encode(o.state()) })
	})
	mux.HandleFunc("GET /stats.txt", func(w http.ResponseWriter, _ *http.Request) {
		send(w, "text/plain; charset=utf-8", func(b io.Writer) error {
			_, err := o.Stats().WriteTo(b)
			return err
		})
	})
	mux.HandleFunc("GET /profile.pb.gz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", `attachment; filename="tasks.pb.gz"`)
		send(w, "application/octet-stream", o.WriteProfile)
	})
	drawing := func(kind string, write func(*Graph, io.Writer, GraphOptions) error) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if o.cfg.Graph == 0 {
				http.Error(w, "The graph is not kept. Set observe.Config.Graph to the number of tasks to keep.", http.StatusNotFound)
				return
			}
			send(w, kind, func(b io.Writer) error { return write(o.Graph(), b, GraphOptions{Title: program()}) })
		}
	}
	mux.HandleFunc("GET /graph.svg", drawing("image/svg+xml", (*Graph).WriteSVG))
	mux.HandleFunc("GET /graph.dot", drawing("text/vnd.graphviz; charset=utf-8", (*Graph).WriteDOT))
	return o.forHosts(mux)
}

// state returns the data of the page.
func (o *Observer) state() *page.State {
	o.flush()
	s := o.collector.State()
	s.Program, s.PID = program(), os.Getpid()
	if ports := o.ports.Load(); ports != nil {
		s.Ports = *ports
		s.Rank, _ = env.RankAndSize()
	}
	return s
}

// send answers with the output of write, or with its error.
func send(w http.ResponseWriter, kind string, write func(io.Writer) error) {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(b.Bytes()) // the client may have closed the connection
}

// A foreign page in a browser can make its own host name point to this machine ("DNS rebinding").
// Then the browser lets the foreign page read what this machine serves, because the host names are
// equal. But the request still has the foreign host name. So the live page accepts only names that
// no foreign page can have. An address is not a name, and cannot be redirected.

// servesHost reports whether the page accepts requests with this header Host.
func (o *Observer) servesHost(host string) bool {
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
	return slices.ContainsFunc(legal, func(name string) bool {
		return name == anyHost || strings.EqualFold(host, strings.TrimSuffix(name, "."))
	})
}

// forHosts passes requests to the page's own hosts to next, and refuses others.
func (o *Observer) forHosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !o.servesHost(r.Host) {
			http.Error(w, fmt.Sprintf("This page does not serve the host %q. It serves addresses, localhost, the machine's name, the host of the address of Listen, "+
				"and the names in observe.Config.Hosts.", r.Host), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
