// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package vec

import "testing"

// A processor without AVX2 uses the loops.
func TestWithoutInstructions(t *testing.T) {
	defer func(was bool) { usable = was }(usable)
	usable = false
	testEverything(t)
}
