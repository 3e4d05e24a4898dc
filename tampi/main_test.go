// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tampi_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"weft/comm"
	"weft/internal/leaktest"
)

// The test binary is also the program whose ranks it starts.
const envRole = "WEFT_TEST_TAMPI_ROLE"

func TestMain(m *testing.M) {
	if _, ok := os.LookupEnv(envRole); !ok {
		os.Exit(leaktest.Main(m))
	}
	if err := comm.Main(context.Background(), comm.Config{Survive: true}, dieLate); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
