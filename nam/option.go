// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Manifestation says which kind of memory a rank's region is. Each rank may choose its own. In a
// store that the process opens itself, both kinds are a memory-mapped file in the store's
// directory; the choice is stored with the window.
type Manifestation uint8

const (
	LibNAM  Manifestation = 1 + iota // network-attached memory: the default
	PersSHM                          // node-local persistent shared memory
)

// Consistency says what Free does with a window's memory. It must be the same on all ranks.
type Consistency uint8

const (
	Volatile   Consistency = 1 + iota // the memory is released: the default
	Persistent                        // the memory stays until the window is removed
)

// Structure says how a window's regions are laid out. It must be the same on all ranks.
type Structure uint8

const (
	// one region, of rank 0, without stored structure; the other ranks pass size 0
	RawAndFlat Structure = 1 + iota
	// one allocation made by rank 0, with a region for each rank: the default
	ManagedContiguous
	// for each rank that passes a size above 0 an allocation, made by that rank
	ManagedDistributed
)

// Sync says what a completed fence guarantees. It must be the same on all ranks.
type Sync uint8

const (
	// the data of the epoch survives the death of every process, and after Free that of the
	// machine: the default
	SyncProcess Sync = 1 + iota
	// and that of the machine: a fence forces the epoch to the disk before it completes
	SyncEpoch
)

// Name is the window's name. Without it the name is random. It must not be in use (ErrExist).
type Name string

// Mode says which users may attach, as permission bits; default 0600. Only the bits for reading and
// writing count. It must be the same on all ranks.
type Mode fs.FileMode

// Prefault makes the pages of this rank's region present, in order, as soon as the window is
// allocated. Without it, the first put to each page pays for a page fault, which takes several
// times as long as the copy. The kernel takes 0.3 to 1.5 seconds per GiB. Allocate waits for at
// most a tenth of a second; the remaining pages become present in the background while the rank
// continues.
type Prefault bool

// ReadOnly attaches a window for Get only.
type ReadOnly bool

// Unsynced, together with ReadOnly, also attaches a window that is unsynced because the machine
// stopped, instead of returning ErrUnsynced. Its Epochs counts the epochs that are certainly on the
// disk.
type Unsynced bool

// Option of Allocate and Attach: Manifestation, Consistency, Structure, Sync, Name, Mode, Prefault,
// ReadOnly, Unsynced, and FromInfo for their string forms. If several options of a kind are given,
// the last one counts.
type Option interface{ apply(*settings) error }

// settings are the values of the options. Zero: not given.
type settings struct {
	manifestation Manifestation
	consistency   Consistency
	structure     Structure
	sync          Sync
	name          Name
	mode          Mode
	prefault      Prefault
	readOnly      ReadOnly
	unsynced      Unsynced
}

func newSettings(opts []Option) (*settings, error) {
	s := &settings{}
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o.apply(s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// withDefaults sets the defaults of options that were not given to Allocate.
func (s *settings) withDefaults() {
	s.manifestation = cmp.Or(s.manifestation, LibNAM)
	s.consistency = cmp.Or(s.consistency, Volatile)
	s.structure = cmp.Or(s.structure, ManagedContiguous)
	s.sync = cmp.Or(s.sync, SyncProcess)
	s.mode = cmp.Or(s.mode, 0o600)
}

// A vocabulary is the string form of one kind of option.
type vocabulary struct {
	key    string
	values []string          // index is the Go value minus 1
	also   map[string]string // accepted spelling → value
}

var (
	manifestations = vocabulary{key: KeyManifestation,
		values: []string{"psnam_manifestation_libnam", "psnam_manifestation_persshm"},
		also:   map[string]string{"psnam_manifestation_pershm": "psnam_manifestation_persshm"}}
	consistencies = vocabulary{key: KeyConsistency,
		values: []string{"psnam_consistency_volatile", "psnam_consistency_persistent"}}
	structures = vocabulary{key: KeyStructure,
		values: []string{"psnam_structure_raw_and_flat", "psnam_structure_managed_contiguous", "psnam_structure_managed_distributed"}}
	syncs = vocabulary{key: KeySync, values: []string{"process", "epoch"}}
)

func (v *vocabulary) parse(s string) (uint8, error) {
	if i := slices.Index(v.values, cmp.Or(v.also[s], s)); i >= 0 {
		return uint8(i + 1), nil
	}
	hint := ""
	if squeezed := strings.Join(strings.Fields(s), ""); squeezed != s {
		hint = "; blanks are not part of the value"
	}
	return 0, fmt.Errorf("%w: %s=%q; legal are %s%s", ErrInfo, v.key, s, strings.Join(v.values, ", "), hint)
}

func (v *vocabulary) string(n uint8) string {
	if n == 0 || int(n) > len(v.values) {
		return fmt.Sprintf("%s(%d)", v.key, n)
	}
	return v.values[n-1]
}

func (v *vocabulary) check(n uint8) error {
	if n == 0 || int(n) > len(v.values) {
		return fmt.Errorf("%w: %s has no value %d; legal are 1 to %d", ErrInfo, v.key, n, len(v.values))
	}
	return nil
}

// String returns the value of the info key.
func (m Manifestation) String() string { return manifestations.string(uint8(m)) }
func (c Consistency) String() string   { return consistencies.string(uint8(c)) }
func (s Structure) String() string     { return structures.string(uint8(s)) }
func (s Sync) String() string          { return syncs.string(uint8(s)) }

func (m Manifestation) apply(s *settings) error { return set(&s.manifestation, m, &manifestations) }
func (c Consistency) apply(s *settings) error   { return set(&s.consistency, c, &consistencies) }
func (st Structure) apply(s *settings) error    { return set(&s.structure, st, &structures) }
func (sy Sync) apply(s *settings) error         { return set(&s.sync, sy, &syncs) }

// set is apply for an option whose values the vocabulary lists.
func set[T ~uint8](to *T, value T, words *vocabulary) error {
	*to = value
	return words.check(uint8(value))
}

func (m Mode) apply(s *settings) error {
	if m == 0 || m&^0o777 != 0 {
		return fmt.Errorf("%w: mode %#o; legal are 01 to 0777", ErrInfo, uint32(m))
	}
	s.mode = m
	return nil
}

func (n Name) apply(s *settings) error     { return put(&s.name, n) } // the store checks names
func (p Prefault) apply(s *settings) error { return put(&s.prefault, p) }
func (r ReadOnly) apply(s *settings) error { return put(&s.readOnly, r) }
func (u Unsynced) apply(s *settings) error { return put(&s.unsynced, u) }

// put is apply for an option of which any value is legal.
func put[T any](to *T, value T) error {
	*to = value
	return nil
}
