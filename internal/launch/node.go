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
)

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
