// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const withMistakes = "weft/internal/vet/testdata/src/loopvar"

// The command is a tool of go vet, and runs go vet.
func TestVet(t *testing.T) {
	r := self(t, "", "vet", withMistakes)
	require.Equal(t, 1, r.status, r.errOut)
	require.Contains(t, r.errOut, "loopvar.go:21:17: deps.InOut(&b) names b, a new variable in each iteration")
	r = self(t, "", "vet", "-loopvar=false", withMistakes)
	require.Zero(t, r.status, r.errOut)
	r = self(t, "", "vet", "-json", withMistakes)
	require.Zero(t, r.status, r.errOut)
	require.Contains(t, r.out+r.errOut, `"message": "deps.InOut(\u0026b) names b`)
	r = self(t, "", "vet", "-h")
	require.Zero(t, r.status)
	require.Contains(t, r.out, "go vet -vettool=$(which weft) ./...")
	r = self(t, "", "vet", "no/such/package")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.errOut, "no/such/package")
}

// Correct code has no findings: the library, the guide, the examples, and the tests, which also
// contain programs for other runtimes.
func TestVetOfTheRepository(t *testing.T) {
	if testing.Short() {
		t.Skip("type-checks everything")
	}
	r := self(t, "", "vet", "weft/...")
	require.Zero(t, r.status, r.errOut)
	require.Empty(t, r.out+r.errOut)
}

func TestCalledByVet(t *testing.T) {
	for line, want := range map[string]bool{
		"": false, "-V=full": true, "-flags": true, "/tmp/b001/vet.cfg": true, "-loopvar=false /tmp/b001/vet.cfg": true,
		"run vet.cfg": false, "nam rm vet.cfg": false, "-h": false, "vet ./...": false, "run -V=full": false,
	} {
		require.Equal(t, want, calledByVet(strings.Fields(line)), line)
	}
}
