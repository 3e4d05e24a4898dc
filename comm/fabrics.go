// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"weft/internal/fabric"
	"weft/internal/fabric/inproc"
)

// Fabric says what can carry messages between ranks, and what it can do here.
type Fabric struct {
	Name     string `json:"name"`
	Connects string `json:"connects"` // which ranks
	// Problem is why it cannot be used here; empty if it can.
	Problem      string `json:"problem,omitempty"`
	EagerLimit   int    `json:"eager_limit"` // bytes; what Config.EagerLimit zero means
	MaxFrame     int    `json:"max_frame"`   // bytes; 0: no limit
	Ordered      bool   `json:"ordered"`
	OneSided     bool   `json:"one_sided"`
	SharedMemory bool   `json:"shared_memory"`
}

// Fabrics lists the fabrics of this build, the fastest first.
func Fabrics() []Fabric {
	var list []Fabric
	eps, err := inproc.New(1)
	f := Fabric{Name: "inproc", Connects: "goroutines of one process"}
	if err != nil {
		f.Problem = err.Error()
	} else {
		f.describe(eps[0].Caps(0))
		_ = eps[0].Close()
	}
	return append(list, f)
}

func (f *Fabric) describe(c fabric.Caps) {
	f.EagerLimit, f.MaxFrame = c.EagerLimit, c.MaxFrame
	f.Ordered, f.OneSided, f.SharedMemory = c.Ordered, c.OneSided, c.SharedMemory
}
