// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"os"
	"testing"

	"weft/internal/leaktest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Main(m)) }
