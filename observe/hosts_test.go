// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page accepts only host names that no foreign page can have, whatever the path.
func TestHostsOfThePage(t *testing.T) {
	own, err := os.Hostname()
	require.NoError(t, err)
	short, _, _ := strings.Cut(own, ".")
	for _, c := range []struct {
		hosts  []string
		listen string
		legal  []string
		others []string
	}{
		{nil, "localhost:0", []string{"localhost", "LOCALHOST:80", "localhost.", "127.0.0.1:6060", "[::1]:6060", "[::1]", "10.1.2.3", own, own + ":6060", short},
			[]string{"evil.example", "evil.example:6060", "localhost.evil.example", "127.0.0.1.evil.example", "evil" + own, "*", "local host"}},
		{[]string{"Proxy.example"}, "127.0.0.1:0", []string{"proxy.example", "proxy.example.:443", "localhost"}, []string{"x.proxy.example", "evil.example"}},
		{[]string{"*"}, ":0", []string{"evil.example"}, nil},
	} {
		o, err := New(Config{Hosts: c.hosts, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		l, err := o.Listen(c.listen)
		require.NoError(t, err)
		server := &http.Server{Handler: o.Handler()}
		over := make(chan error, 1)
		go func() { over <- server.Serve(l) }()
		ask := func(host, path string) (int, string) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+path, nil)
			require.NoError(t, err)
			req.Host = host
			r, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer func() { _ = r.Body.Close() }()
			text, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			return r.StatusCode, string(text)
		}
		for _, h := range c.legal {
			code, _ := ask(h, "/state.json")
			require.Equal(t, http.StatusOK, code, h)
		}
		for _, h := range c.others {
			for _, path := range []string{"/", "/state.json", "/stats.txt", "/profile.pb.gz", "/graph.svg", "/other"} {
				code, text := ask(h, path)
				if code == http.StatusBadRequest { // no host at all
					continue
				}
				require.Equal(t, http.StatusForbidden, code, "%s %s", h, path)
				require.Contains(t, text, "observe.Config.Hosts")
			}
		}
		require.NoError(t, server.Close())
		<-over
		http.DefaultClient.CloseIdleConnections()
		require.NoError(t, o.Close())
	}
	for _, h := range []string{"", "host:80", "http://host", "*.example"} {
		_, err := New(Config{Hosts: []string{h}})
		require.ErrorContains(t, err, "legal are names without a port")
	}
	o := &Observer{}
	require.False(t, o.servesHost(""))
	name := "node7"
	o.host.Store(&name)
	require.True(t, o.servesHost("node7:6060"), "what Listen was given")
}

// Listening on all interfaces gives a warning.
func TestListenOnAllInterfaces(t *testing.T) {
	const child = "WEFT_TEST_LISTEN"
	if os.Getenv(child) != "" {
		o, err := New(Config{})
		require.NoError(t, err)
		_, err = o.Listen(":0")
		require.NoError(t, err)
		os.Exit(0)
	}
	for address, said := range map[string]bool{":0": true, "0.0.0.0:0": true, "localhost:0": false} {
		var log bytes.Buffer
		o, err := New(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		l, err := o.Listen(address)
		require.NoError(t, err)
		require.Equal(t, said, strings.Contains(log.String(), "all interfaces"), "%s: %s", address, &log)
		require.NoError(t, l.Close())
		require.NoError(t, o.Close())
	}

	// Without a Logger, the warning is on the standard error. Of several ranks, one writes it.
	for rank, said := range map[string]int{"": 1, "WEFT_RANK=0": 1, "WEFT_RANK=1": 0} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestListenOnAllInterfaces$")
		cmd.Env = append(os.Environ(), child+"=1", rank)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, said, strings.Count(string(out), "weft: the live page is served on all interfaces"), "%s", out)
	}
}
