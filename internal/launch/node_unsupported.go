// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package launch

import "os"

// nodeTraits identifies the machine by its host name.
func nodeTraits() ([]string, error) {
	name, err := os.Hostname()
	return []string{name}, err
}
