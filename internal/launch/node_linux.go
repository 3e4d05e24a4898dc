// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"os"
	"path/filepath"
)

// nodeTraits returns texts that are equal for two processes if, and only if, they are on one node:
// the boot ID of the machine, and the namespaces that determine whether processes can share memory,
// see each other, and use each other's loopback device. Mount namespaces do not count: ip(8) makes
// one for each program that it runs in a network namespace.
func nodeTraits() ([]string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, err
	}
	traits := []string{string(boot)}
	for _, ns := range []string{"ipc", "net", "pid", "user"} {
		id, err := os.Readlink(filepath.Join("/proc/self/ns", ns))
		if err != nil {
			return nil, err
		}
		traits = append(traits, id)
	}
	return traits, nil
}
