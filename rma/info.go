// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"fmt"
	"slices"
	"strings"

	"weft/comm"
)

// Info keys of windows. This package guarantees more than any hint requires. So it checks the
// values of hints, and otherwise ignores them; Info returns what is in effect.
var hints = map[string][]string{
	"no_locks":       {"true", "false"},
	"same_size":      {"true", "false"},
	"same_disp_unit": {"true", "false"},
	"accumulate_ops": {"same_op", "same_op_no_op"},
	// and accumulate_ordering, whose values are lists
}

var orderings = []string{"rar", "raw", "war", "waw"}

// Info returns the values in effect.
func (w *Win) Info() comm.Info {
	w.mu.Lock()
	info := w.info.Clone()
	w.mu.Unlock()
	info.Set("no_locks", "true")
	info.Set("accumulate_ordering", strings.Join(orderings, ","))
	info.Set("accumulate_ops", "same_op_no_op")
	size, unit := true, true
	for _, g := range w.regions {
		size = size && g.Size == w.regions[0].Size
		unit = unit && g.Unit == w.regions[0].Unit
	}
	info.Set("same_size", fmt.Sprint(size))
	info.Set("same_disp_unit", fmt.Sprint(unit))
	return info
}

// SetInfo adds to the window's info. Keys that this package does not know are kept unchanged. All
// ranks must set the same values, but SetInfo does not wait for other ranks. Errors: ErrInfo, and
// nothing is set.
func (w *Win) SetInfo(info comm.Info) error {
	if err := w.mergeInfo(info); err != nil {
		return w.wrap("set info", NoPeer, err)
	}
	return nil
}

func (w *Win) mergeInfo(info comm.Info) error {
	for _, k := range info.Keys() {
		v := info.Get(k)
		if legal, ok := hints[k]; ok && !slices.Contains(legal, v) {
			return fmt.Errorf("%w: %s=%q; legal are %s", ErrInfo, k, v, strings.Join(legal, ", "))
		}
		unknown := func(o string) bool { return !slices.Contains(orderings, strings.TrimSpace(o)) }
		if k == "accumulate_ordering" && v != "none" && slices.ContainsFunc(strings.Split(v, ","), unknown) {
			return fmt.Errorf("%w: %s=%q; legal are none or a list of %s", ErrInfo, k, v, strings.Join(orderings, ", "))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range info.Keys() {
		w.info.Set(k, info.Get(k))
	}
	return nil
}
