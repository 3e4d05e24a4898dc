// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"strings"
)

// kernels are the legal names, the default first.
var kernels = []struct {
	name string
	f    Func
}{
	{"rows8", Rows8},
	{"row", Row},
	{"naive", Naive},
}

// Names lists the kernels, the default first.
func Names() []string {
	names := make([]string, len(kernels))
	for i, k := range kernels {
		names[i] = k.name
	}
	return names
}

// ByName returns a kernel by its name.
func ByName(name string) (Func, error) {
	for _, k := range kernels {
		if k.name == name {
			return k.f, nil
		}
	}
	return nil, fmt.Errorf("unknown kernel %q: choose one of %s", name, strings.Join(Names(), ", "))
}
