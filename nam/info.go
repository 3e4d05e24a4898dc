// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weft/comm"
)

// Info keys. Keys that begin with psnam are ParaStation MPI's, with its values.
const (
	// psnam_manifestation_libnam, psnam_manifestation_persshm (or …_pershm)
	KeyManifestation = "psnam_manifestation"
	// psnam_consistency_volatile, psnam_consistency_persistent
	KeyConsistency = "psnam_consistency"
	// psnam_structure_raw_and_flat, …_managed_contiguous, …_managed_distributed
	KeyStructure = "psnam_structure"
	// of the window; for Allocate, the name that it gets
	KeyWindowName    = "psnam_window_name"
	KeyWindowConnect = "psnam_window_connect" // "true": accepted by Attach, which does not need it
	KeySync          = "weft_nam_sync"        // process, epoch
	KeyMode          = "weft_nam_mode"        // octal permission bits
	KeyPrefault      = "weft_nam_prefault"    // true, false
	KeyReadOnly      = "weft_nam_read_only"   // true, false; for Attach
	KeyUnsynced      = "weft_nam_unsynced"    // true, false; for Attach
)

// infoKey is an info key and the option that it stands for. parse returns nil if that is none.
type infoKey struct {
	name  string
	parse func(v string) (Option, error)
}

// keys has all info keys, in the order in which an error lists them.
var keys = []infoKey{
	{KeyManifestation, word[Manifestation](&manifestations)},
	{KeyConsistency, word[Consistency](&consistencies)},
	{KeyStructure, word[Structure](&structures)},
	{KeyWindowName, func(v string) (Option, error) { return Name(v), nil }},
	{KeyWindowConnect, func(v string) (Option, error) {
		if v != "true" {
			return nil, fmt.Errorf("%w: %s=%q; legal is true", ErrInfo, KeyWindowConnect, v)
		}
		return nil, nil
	}},
	{KeySync, word[Sync](&syncs)},
	{KeyMode, func(v string) (Option, error) {
		n, err := strconv.ParseUint(v, 8, 9)
		if err != nil {
			return nil, fmt.Errorf("%w: %s=%q; legal are octal numbers up to 777", ErrInfo, KeyMode, v)
		}
		return Mode(n), nil
	}},
	{KeyPrefault, flag[Prefault](KeyPrefault)},
	{KeyReadOnly, flag[ReadOnly](KeyReadOnly)},
	{KeyUnsynced, flag[Unsynced](KeyUnsynced)},
}

// word parses an option whose values the vocabulary lists.
func word[T interface {
	~uint8
	Option
}](words *vocabulary) func(v string) (Option, error) {
	return func(v string) (Option, error) {
		n, err := words.parse(v)
		return T(n), err
	}
}

// flag parses an option that is true or false.
func flag[T interface {
	~bool
	Option
}](key string) func(v string) (Option, error) {
	return func(v string) (Option, error) {
		if v != "true" && v != "false" {
			return nil, fmt.Errorf("%w: %s=%q; legal are true, false", ErrInfo, key, v)
		}
		return T(v == "true"), nil
	}
}

type infoOption struct{ info comm.Info }

// FromInfo returns the options that an info has as strings. Unknown keys that begin with psnam_ or
// weft_nam_ are refused, because a misspelt key would silently lose data. All other keys are
// ignored.
func FromInfo(info comm.Info) Option { return infoOption{info} }

func (o infoOption) apply(s *settings) error {
	for _, k := range o.info.Keys() {
		i := slices.IndexFunc(keys, func(key infoKey) bool { return key.name == k })
		if i < 0 {
			if strings.HasPrefix(k, "psnam_") || strings.HasPrefix(k, "weft_nam_") {
				return fmt.Errorf("%w: unknown key %q; known are %s", ErrInfo, k, knownKeys())
			}
			continue
		}
		opt, err := keys[i].parse(o.info.Get(k))
		if err == nil && opt != nil {
			err = opt.apply(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func knownKeys() string {
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
	}
	return strings.Join(names, ", ")
}
