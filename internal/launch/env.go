// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"

	"weft/internal/launch/bind"
)

// The environment of a started rank. docs/environment.md explains the variables to users.
const (
	EnvRank  = "WEFT_RANK"  // this process's rank
	EnvRanks = "WEFT_RANKS" // the number of ranks
	EnvJob   = "WEFT_JOB"   // the job directory
	// EnvBound is the list of processors that the launcher has bound this process to; empty if it has not.
	EnvBound = "WEFT_BOUND"
	// EnvNode, if set, is a number that stands for the node: ranks with different numbers behave as on different nodes.
	EnvNode = "PSP_SMP_NODE_ID"
)

// MaxRanks is the largest number of ranks of a job. It guards against misprints, not against machines.
const MaxRanks = 4096

// Place is what the environment tells a started process: where it belongs.
type Place struct {
	Rank, Ranks int
	Dir         string // the job directory
}

// Detect returns the place of this process, nil if it was not started by a launcher.
func Detect() (*Place, error) { return detect(os.Getenv) }

func detect(getenv func(string) string) (*Place, error) {
	dir, rank, ranks := getenv(EnvJob), getenv(EnvRank), getenv(EnvRanks)
	switch {
	case dir == "" && rank == "":
		return nil, nil
	case dir == "":
		return nil, envError("%s=%q without %s; a launcher sets both, and nobody else should", EnvRank, rank, EnvJob)
	}
	n, err := strconv.Atoi(ranks)
	if err != nil || n < 1 || n > MaxRanks {
		return nil, envError("%s=%q; in a started rank it is a number from 1 to %d", EnvRanks, ranks, MaxRanks)
	}
	r, err := strconv.Atoi(rank)
	if err != nil || r < 0 || r >= n {
		return nil, envError("%s=%q; it is a number from 0 to %d, one less than %s", EnvRank, rank, n-1, EnvRanks)
	}
	return &Place{Rank: r, Ranks: n, Dir: dir}, nil
}

func envError(format string, args ...any) error {
	return &Error{Op: "environment", Rank: -1, Err: fmt.Errorf("%w: "+format, append([]any{ErrEnvironment}, args...)...)}
}

// Environ returns the variables that Detect reads.
func (p *Place) Environ() []string {
	return []string{
		EnvRank + "=" + strconv.Itoa(p.Rank),
		EnvRanks + "=" + strconv.Itoa(p.Ranks),
		EnvJob + "=" + p.Dir,
	}
}

// CheckBound says what is wrong with a value of EnvBound.
func CheckBound(value string) error {
	if value == "" {
		return nil
	}
	if _, err := bind.ParseSet(value); err != nil {
		return fmt.Errorf("%s=%q; %w. A launcher sets it, and nobody else should", EnvBound, value, err)
	}
	return nil
}

// Reserved reports whether a variable's value is the launcher's alone.
func Reserved(name string) bool {
	return strings.EqualFold(name, EnvRank) || strings.EqualFold(name, EnvRanks) || strings.EqualFold(name, EnvJob) || strings.EqualFold(name, EnvBound)
}

// NodeID tells nodes apart: ranks with equal ones can share memory. It means nothing else.
type NodeID string

// nodeIDs are this long.
const nodeIDSize = 16

// maxEmulated is the largest number of an emulated node.
const maxEmulated = 1<<31 - 1

// Node returns the identity of this process's node. PSP_SMP_NODE_ID in the environment makes nodes out of one.
func Node() (NodeID, error) { return node(os.Getenv(EnvNode)) }

func node(emulated string) (NodeID, error) {
	traits, err := nodeTraits()
	if err != nil {
		return "", fmt.Errorf("node identity: %w", err)
	}
	if emulated != "" {
		if err := CheckNode(emulated); err != nil {
			return "", err
		}
		traits = append(traits, strings.TrimLeft(emulated, "0"))
	}
	h := sha256.New()
	for _, t := range traits {
		h.Write([]byte(strconv.Itoa(len(t)) + ":" + t))
	}
	return NodeID(hex.EncodeToString(h.Sum(nil)[:nodeIDSize/2])), nil
}

// CheckNode says what is wrong with a value of PSP_SMP_NODE_ID.
func CheckNode(value string) error {
	if n, err := strconv.ParseUint(value, 10, 64); err != nil || n > maxEmulated {
		return fmt.Errorf("%w: %s=%q; it is a number from 0 to %d", ErrEnvironment, EnvNode, value, maxEmulated)
	}
	return nil
}
