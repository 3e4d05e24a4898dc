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

// Handler returns the live page: what the tasks do now, by state, slot and label, how many are over
// per second, and which are the oldest. It answers these paths, relative to where it is mounted
// with http.StripPrefix:
//
//	/               the page, which looks again every second
//	/state.json     what it shows
//	/stats.txt      the statistics as a table
//	/profile.pb.gz  the task profile: go tool pprof http://…/profile.pb.gz
//	/graph.svg      the graph, also /graph.dot; with Config.Graph
//
// In a process that is one of several ranks, the page is of this rank's tasks; with
// [Observer.Listen] it has links to those of the others.
//
// Requests have to be to an address, to localhost, to the machine by its name, to the name that
// Listen was given, or to one in Config.Hosts. All others are refused: pages of strangers in the
// same browser cannot read this one.
//
// The page loads nothing from anywhere else. Asking costs tasks nothing, however often. It shows
// labels, places in the source and the name of the program: serve it to those who may know them.
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
				http.Error(w, "The graph is not kept: observe.Config.Graph says of how many tasks it is to be.", http.StatusNotFound)
				return
			}
			send(w, kind, func(b io.Writer) error { return write(o.Graph(), b, GraphOptions{Title: program()}) })
		}
	}
	mux.HandleFunc("GET /graph.svg", drawing("image/svg+xml", (*Graph).WriteSVG))
	mux.HandleFunc("GET /graph.dot", drawing("text/vnd.graphviz; charset=utf-8", (*Graph).WriteDOT))
	return o.forHosts(mux)
}

// state is what the page shows.
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

// send answers with what write makes, or says that it failed.
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
	_, _ = w.Write(b.Bytes()) // the one who asked may be gone
}

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
	return slices.ContainsFunc(legal, func(name string) bool {
		return name == anyHost || strings.EqualFold(host, strings.TrimSuffix(name, "."))
	})
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
