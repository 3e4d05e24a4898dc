// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/observe/internal/page"
)

func TestPortsOf(t *testing.T) {
	for _, c := range []struct {
		address     string
		rank, ranks int
		own         string
		ports       []int
	}{
		{"localhost:6060", -1, 1, "localhost:6060", nil},
		{"localhost:6060", 0, 1, "localhost:6060", nil},
		{"localhost:6060", 2, 3, "localhost:6062", []int{6060, 6061, 6062}},
		{"[::1]:6060", 1, 2, "[::1]:6061", []int{6060, 6061}},
		{":0", 2, 3, ":0", nil},
		{":65534", 0, 2, ":65534", []int{65534, 65535}},
	} {
		own, ports, err := portsOf(c.address, c.rank, c.ranks)
		require.NoError(t, err)
		require.Equal(t, c.own, own)
		require.Equal(t, c.ports, ports)
	}
	_, _, err := portsOf("localhost:65534", 0, 3)
	require.EqualError(t, err, "the pages of 3 ranks need the ports from 65534 to 65536; legal are ports up to 65535")
	_, _, err = portsOf("localhost", 0, 3)
	require.ErrorContains(t, err, "missing port")
}

// A rank's page has the number of its rank and the ports of the other ranks' pages.
func TestPageOfARank(t *testing.T) {
	o, err := New(Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, o.Close()) }()
	t.Setenv("WEFT_RANK", "1")
	t.Setenv("WEFT_RANKS", "3")
	o.ports.Store(&[]int{7000, 7001, 7002})
	w := httptest.NewRecorder()
	o.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/state.json", nil))
	var s page.State
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &s))
	require.Equal(t, 1, s.Rank)
	require.Equal(t, []int{7000, 7001, 7002}, s.Ports)
}
