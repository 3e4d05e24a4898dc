// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"os"

	"weft/internal/fabric"
	"weft/internal/fabric/inproc"
	"weft/internal/fabric/mpi"
	"weft/internal/fabric/mux"
)

// Fabric says what can carry messages between ranks, and what it can do here.
type Fabric struct {
	Name     string `json:"name"`
	Connects string `json:"connects"` // which ranks
	// Problem is why it cannot be used here; empty if it can.
	Problem      string `json:"problem,omitempty"`
	Library      string `json:"library,omitempty"` // what carries it, name and version
	EagerLimit   int    `json:"eager_limit"`       // bytes; what Config.EagerLimit zero means
	MaxFrame     int    `json:"max_frame"`         // bytes; 0: no limit
	Ordered      bool   `json:"ordered"`
	OneSided     bool   `json:"one_sided"`
	SharedMemory bool   `json:"shared_memory"`
}

// Fabrics lists the fabrics of this build, the fastest first. It tries each.
func Fabrics() []Fabric {
	all := []Fabric{
		describe("inproc", "goroutines of one process", func() (fabric.Endpoint, error) {
			eps, err := inproc.New(1)
			if err != nil {
				return nil, err
			}
			return eps[0], nil
		}),
	}
	wishes, err := mux.WishesFromEnv(os.Getenv)
	for _, p := range providers {
		f := describe(p.name, p.connects, p.trial)
		switch {
		case err != nil:
			f.Problem = err.Error()
		case wishes[p.name] == 0:
			f.Problem = "switched off by " + mux.Env(p.name) + " or " + mux.EnvOrder
		}
		if p.name == mpiName {
			f.Library = mpi.Version()
		}
		all = append(all, f)
	}
	return all
}

func describe(name, connects string, open func() (fabric.Endpoint, error)) Fabric {
	f := Fabric{Name: name, Connects: connects}
	ep, err := open()
	if err != nil {
		f.Problem = err.Error()
		return f
	}
	c := ep.Caps(0)
	f.EagerLimit, f.MaxFrame, f.Ordered, f.OneSided, f.SharedMemory = c.EagerLimit, c.MaxFrame, c.Ordered, c.OneSided, c.SharedMemory
	if err := ep.Close(); err != nil {
		f.Problem = err.Error()
	}
	return f
}
