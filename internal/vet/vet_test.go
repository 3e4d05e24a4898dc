// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package vet_test

import (
	"os"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"weft/internal/leaktest"
	"weft/internal/vet"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Main(m)) }

// Each analyzer reports exactly what its package in testdata marks.
func TestAnalyzers(t *testing.T) {
	for _, a := range vet.Analyzers {
		t.Run(a.Name, func(t *testing.T) {
			analysistest.Run(t, analysistest.TestData(), a, a.Name)
		})
	}
}
