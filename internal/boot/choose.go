// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weft/internal/env"
)

// Errors of the choice of a fabric.
var (
	// ErrUnreachable: no fabric connects two ranks. They are lost to each other.
	ErrUnreachable = errors.New("unreachable")
	// ErrOffer: the offer of another rank is malformed.
	ErrOffer = errors.New("bad offer of fabrics")
)

// priorities returns the priorities that the environment gives the fabrics in a list, in the order
// of the list. 0: the fabric is not to be used; of the others, the highest is the best. The error
// names each variable that is wrong.
func priorities(list []provider) ([]int, error) {
	w := make([]int, len(list))
	order, err := env.Fabrics.Value()
	problems := []error{err}
	for i, f := range list {
		w[i], err = f.priority.Value()
		problems = append(problems, err)
		if at := slices.Index(order, f.name); order != nil && (at < 0 || w[i] == 0) {
			w[i] = 0
		} else if order != nil {
			w[i] = len(order) - at
		}
	}
	return w, errors.Join(problems...)
}

// maxOffered bounds the offer of one rank for one fabric, in bytes.
const maxOffered = 4 << 10

// encode returns an access as it is sent to other ranks: priority (4 bytes, little endian), whether
// there is a problem (1 byte), then the problem or the address.
func (a access) encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(a.priority))
	if a.problem != "" {
		b = append(append(b, 1), a.problem...)
	} else {
		b = append(append(b, 0), a.addr...)
	}
	return b[:min(len(b), maxOffered)]
}

// decode parses the result of another rank's encode. Errors: ErrOffer.
func decode(b []byte) (access, error) {
	if len(b) < 5 || len(b) > maxOffered || b[4] > 1 {
		return access{}, fmt.Errorf("%w: %d bytes", ErrOffer, len(b))
	}
	p := binary.LittleEndian.Uint32(b)
	if p > env.MaxPriority {
		return access{}, fmt.Errorf("%w: priority %d", ErrOffer, p)
	}
	if b[4] == 1 {
		return access{priority: int(p), problem: string(b[5:])}, nil
	}
	return access{priority: int(p), addr: b[5:]}, nil
}

// choose returns the fabric that connects two ranks: the one with the highest priority, and of
// several with that priority the first in the list. If the ranks give a fabric different
// priorities, the lower one counts. The order of a and b does not matter. Errors: ErrUnreachable,
// with the reason for each fabric.
func choose(list []provider, a, b side) (string, error) {
	if b.rank < a.rank {
		a, b = b, a
	}
	best, priority := "", 0
	var reasons []string
	for _, f := range list {
		p, reason := f.between(a, b)
		switch {
		case reason != "":
			reasons = append(reasons, f.name+": "+reason)
		case p > priority:
			best, priority = f.name, p
		}
	}
	if best == "" {
		return "", fmt.Errorf("rank %d and rank %d are %w to each other: %s", a.rank, b.rank, ErrUnreachable, strings.Join(reasons, "; "))
	}
	return best, nil
}

// between returns the priority of a fabric for a pair of ranks, or why the fabric cannot connect
// them.
func (f *provider) between(a, b side) (int, string) {
	for _, s := range []side{a, b} {
		access, ok := s.offer[f.name]
		switch {
		case !ok:
			return 0, fmt.Sprintf("not in the build of rank %d", s.rank)
		case access.priority == 0:
			return 0, fmt.Sprintf("switched off at rank %d by %s or %s", s.rank, f.priority.Name, env.Fabrics.Name)
		case access.problem != "":
			return 0, fmt.Sprintf("rank %d: %s", s.rank, access.problem)
		}
	}
	if a.node != b.node && f.nodeOnly {
		return 0, "they are on different nodes"
	}
	return min(a.offer[f.name].priority, b.offer[f.name].priority), ""
}
