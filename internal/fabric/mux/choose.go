// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Names are the fabrics between processes, the best first: of several that are wanted alike, the first that connects two ranks does.
var Names = []string{"shm", "mpi", "tcp"}

// nodeOnly are those that do not leave a node.
var nodeOnly = []string{"shm"}

// EnvOrder is the environment variable that lists the fabrics to be used, the best first.
const EnvOrder = "WEFT_FABRIC"

// envs are the environment variables with the priorities of fabrics.
var envs = map[string]string{"shm": "PSP_SHM", "mpi": "PSP_MPI", "tcp": "PSP_TCP"}

// Env returns the environment variable with a fabric's priority.
func Env(name string) string { return envs[name] }

// maxPriority bounds priorities; it guards against misprints.
const maxPriority = 1 << 20

// Errors of this package.
var (
	// ErrSetting: a variable has a value that it cannot have. Nothing is lost.
	ErrSetting = errors.New("bad choice of fabrics")
	// ErrUnreachable: no fabric connects two ranks. They are lost to each other.
	ErrUnreachable = errors.New("unreachable")
	// ErrOffer: what another rank says that it offers makes no sense.
	ErrOffer = errors.New("bad offer of fabrics")
)

// Wishes are the priorities of fabrics, by name: 0 is not to be used, and of others the highest is the best.
type Wishes map[string]int

// WishesFromEnv returns what the environment wants. Errors: ErrSetting, with each variable that is wrong.
func WishesFromEnv(getenv func(string) string) (Wishes, error) {
	w := Wishes{}
	var problems []error
	for _, name := range Names {
		p, err := priority(name, getenv)
		problems = append(problems, err)
		w[name] = p
	}
	order, err := order(getenv)
	problems = append(problems, err)
	if order != nil {
		for _, name := range Names {
			if i := slices.Index(order, name); i < 0 || w[name] == 0 {
				w[name] = 0
			} else {
				w[name] = len(order) - i
			}
		}
	}
	return w, errors.Join(problems...)
}

// Check returns what is wrong with one of the variables.
func Check(variable string, getenv func(string) string) error {
	if variable == EnvOrder {
		_, err := order(getenv)
		return err
	}
	for _, name := range Names {
		if Env(name) == variable {
			_, err := priority(name, getenv)
			return err
		}
	}
	return nil
}

func priority(name string, getenv func(string) string) (int, error) {
	text := getenv(Env(name))
	if text == "" {
		return 1, nil
	}
	p, err := strconv.Atoi(text)
	if err != nil || p < 0 || p > maxPriority {
		return 1, fmt.Errorf("%w: %s=%q; it is a priority, 0 (not to be used) to %d", ErrSetting, Env(name), text, maxPriority)
	}
	return p, nil
}

// order returns what WEFT_FABRIC lists; nil if it is not set.
func order(getenv func(string) string) ([]string, error) {
	text := getenv(EnvOrder)
	if text == "" {
		return nil, nil
	}
	list := strings.Split(text, ",")
	for i, name := range list {
		if !slices.Contains(Names, name) || slices.Contains(list[:i], name) {
			return nil, fmt.Errorf("%w: %s=%q; it lists one or more of %s, with commas between, the best first", ErrSetting, EnvOrder, text, strings.Join(Names, ", "))
		}
	}
	return list, nil
}

// Access is what a rank says of one fabric.
type Access struct {
	Priority int    // 0: the rank does not want it
	Addr     []byte // where others find the rank; may be empty
	Problem  string // why the rank cannot use it; empty: it can
}

// Offer is what a rank says of all fabrics, by name. What is not there, its build does not have.
type Offer map[string]Access

// maxOffered bounds what one rank says of one fabric, in bytes.
const maxOffered = 4 << 10

// Encode returns an access as it goes to other ranks: priority (4 bytes, little endian), whether there is a problem (1), problem or
// address.
func (a Access) Encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(a.Priority))
	if a.Problem != "" {
		b = append(append(b, 1), a.Problem...)
	} else {
		b = append(append(b, 0), a.Addr...)
	}
	return b[:min(len(b), maxOffered)]
}

// Decode reads what another rank's Encode has made. Errors: ErrOffer.
func Decode(b []byte) (Access, error) {
	if len(b) < 5 || len(b) > maxOffered || b[4] > 1 {
		return Access{}, fmt.Errorf("%w: %d bytes", ErrOffer, len(b))
	}
	p := binary.LittleEndian.Uint32(b)
	if p > maxPriority {
		return Access{}, fmt.Errorf("%w: priority %d", ErrOffer, p)
	}
	a := Access{Priority: int(p)}
	if b[4] == 1 {
		a.Problem = string(b[5:])
	} else {
		a.Addr = b[5:]
	}
	return a, nil
}

// Side is one rank of a pair.
type Side struct {
	Rank  int
	Offer Offer
	Node  string // equal on both sides: they are on one node
}

// Choose returns the fabric that connects two ranks: the one of the highest priority, where that of two different ones is the lower, and of
// several of these the first of Names. It does not matter which of the two is a. Errors: ErrUnreachable, with the reason for each fabric.
func Choose(a, b Side) (string, error) {
	if b.Rank < a.Rank {
		a, b = b, a
	}
	best, priority := "", 0
	var reasons []string
	for _, name := range Names {
		p, reason := connects(name, a, b)
		switch {
		case reason != "":
			reasons = append(reasons, name+": "+reason)
		case p > priority:
			best, priority = name, p
		}
	}
	if best == "" {
		return "", fmt.Errorf("rank %d and rank %d are %w to each other: %s", a.Rank, b.Rank, ErrUnreachable, strings.Join(reasons, "; "))
	}
	return best, nil
}

// connects returns the priority of a fabric for a pair, or why it cannot be used.
func connects(name string, a, b Side) (int, string) {
	for _, s := range []Side{a, b} {
		access, ok := s.Offer[name]
		switch {
		case !ok:
			return 0, fmt.Sprintf("not in the build of rank %d", s.Rank)
		case access.Priority == 0:
			return 0, fmt.Sprintf("switched off at rank %d by %s or %s", s.Rank, Env(name), EnvOrder)
		case access.Problem != "":
			return 0, fmt.Sprintf("rank %d: %s", s.Rank, access.Problem)
		}
	}
	if a.Node != b.Node && slices.Contains(nodeOnly, name) {
		return 0, "they are on different nodes"
	}
	return min(a.Offer[name].Priority, b.Offer[name].Priority), ""
}
