// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package launch

import "os"

// segmentHome is empty: segments are in the job directory.
const segmentHome = ""

// nodeTraits knows the machine by its name.
func nodeTraits() ([]string, error) {
	name, err := os.Hostname()
	return []string{name}, err
}
