// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import "unsafe"

// Nodes and Flows are parts of other packages' types, and name what ranges are made of without its type: these types have parts that are
// instances of generic ones, whose code the compiler would put into every package that uses a Node, and the linker into the program from any of
// them. A build that leaves this package out of the race detector (package task's lint mode) would get it back in by that door.

// rangesRef is a *ranges.
type rangesRef struct{ p unsafe.Pointer }

func inRanges(d *domain) *ranges     { return (*ranges)(d.ranges.p) }
func setRanges(d *domain, r *ranges) { d.ranges.p = unsafe.Pointer(r) }

// recordRef is a *record.
type recordRef struct{ p unsafe.Pointer }

func refer(r *record) recordRef  { return recordRef{unsafe.Pointer(r)} }
func target(r recordRef) *record { return (*record)(r.p) }
