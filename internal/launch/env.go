// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weft/internal/env"
	"weft/internal/launch/bind"
)

// MaxRanks is the largest number of ranks of a job. It guards against typing errors, not against
// large machines.
const MaxRanks = 4096

// Identity is a process's rank in a job, as the launcher gives it in the environment.
type Identity struct {
	Rank, Ranks int
	Dir         string // the job directory
}

// Detect returns the identity of this process; nil if no launcher has started it.
func Detect() (*Identity, error) {
	dir, rank, ranks := env.Job.Text(), env.Rank.Text(), env.Ranks.Text()
	switch {
	case dir == "" && rank == "":
		return nil, nil
	case dir == "":
		return nil, envError("%s=%q without %s; only a launcher should set them", env.Rank.Name, rank, env.Job.Name)
	}
	n, err := strconv.Atoi(ranks)
	if err != nil || n < 1 || n > MaxRanks {
		return nil, envError("%s=%q; in a started rank it is a number from 1 to %d", env.Ranks.Name, ranks, MaxRanks)
	}
	r, err := strconv.Atoi(rank)
	if err != nil || r < 0 || r >= n {
		return nil, envError("%s=%q; it is a number from 0 to %d, one less than %s", env.Rank.Name, rank, n-1, env.Ranks.Name)
	}
	return &Identity{Rank: r, Ranks: n, Dir: dir}, nil
}

func envError(format string, args ...any) error {
	return &Error{Op: "environment", Rank: -1, Err: fmt.Errorf("%w: "+format, append([]any{ErrEnvironment}, args...)...)}
}

// Environ returns the variables that Detect reads.
func (p *Identity) Environ() []string {
	return []string{
		env.Rank.Name + "=" + strconv.Itoa(p.Rank),
		env.Ranks.Name + "=" + strconv.Itoa(p.Ranks),
		env.Job.Name + "=" + p.Dir,
	}
}

func init() {
	detect := func(string) error {
		_, err := Detect()
		return err
	}
	env.Rank.Check, env.Job.Check, env.Bound.Check = detect, detect, func(text string) error {
		if _, err := bind.ParseSet(text); err != nil {
			return fmt.Errorf("%s=%q; %w. Only a launcher should set it", env.Bound.Name, text, err)
		}
		return nil
	}
}

// Reserved reports whether only the launcher may set a variable.
func Reserved(name string) bool {
	return slices.ContainsFunc([]*env.Variable{env.Rank, env.Ranks.Variable, env.Job, env.Bound}, func(v *env.Variable) bool { return strings.EqualFold(name, v.Name) })
}

// NodeID identifies a node: ranks with equal NodeIDs can share memory. It has no other meaning.
type NodeID string

// nodeIDSize is the length of a NodeID in bytes.
const nodeIDSize = 16

// Node returns the identity of this process's node. Processes with different values of
// PSP_SMP_NODE_ID in their environments get different identities even on one node.
func Node() (NodeID, error) {
	emulated, err := env.Node.Value()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	traits, err := nodeTraits()
	if err != nil {
		return "", fmt.Errorf("node identity: %w", err)
	}
	if emulated >= 0 {
		traits = append(traits, strconv.Itoa(emulated))
	}
	h := sha256.New()
	for _, t := range traits {
		h.Write([]byte(strconv.Itoa(len(t)) + ":" + t))
	}
	return NodeID(hex.EncodeToString(h.Sum(nil)[:nodeIDSize/2])), nil
}
