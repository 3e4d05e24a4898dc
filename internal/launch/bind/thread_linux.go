// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package bind

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Supported is whether processes can be bound on this platform.
const Supported = true

// Here returns the machine with the processors that the calling thread may use.
func Here() (*Machine, error) {
	s, err := Allowed()
	if err != nil {
		return nil, err
	}
	return Read(os.DirFS("/"), s), nil
}

// Allowed returns the processors that the calling thread may use.
func Allowed() (s Set, err error) {
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mask); err != nil {
		return nil, fmt.Errorf("the affinity mask cannot be read: %w", err)
	}
	for cpu := range 64 * len(mask) {
		if mask.IsSet(cpu) {
			s = append(s, cpu)
		}
	}
	return s, nil
}

// Thread binds the calling thread, and the processes that it starts from now on. restore gives the
// thread its former processors back.
func Thread(s Set) (restore func() error, err error) {
	var old, mask unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		return nil, fmt.Errorf("the affinity mask cannot be read: %w", err)
	}
	for _, cpu := range s {
		mask.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &mask); err != nil {
		return nil, fmt.Errorf("processors %v: %w", s, err)
	}
	return func() error { return unix.SchedSetaffinity(0, &old) }, nil
}
