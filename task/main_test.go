// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"flag"
	"os"
	"testing"

	"weft/internal/leaktest"
)

func TestMain(m *testing.M) {
	// tests that are run so wait for seconds, without a processor
	_ = flag.Set("test.parallel", "16")
	os.Exit(leaktest.Main(m))
}
