// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"regexp"
	"slices"
	"time"
)

// Config says what to measure and how often.
type Config struct {
	Run     *regexp.Regexp // workloads whose name matches; nil means all
	Workers []int          // one group for each; must not be empty
	Reps    int            // samples per row; at least 1
	Extra   bool           // also run peers that are Extra
	Only    []string       // peers to run; empty means all
	Quick   bool           // the Quick sizes
	MinTime time.Duration  // see Params
	// a row whose samples took this long takes no more; 0 means no limit
	Budget time.Duration

	// Sampled runs one sample. A profiler uses it to observe the samples and nothing else; nil
	// means a direct call.
	Sampled func(peer string, sample func())
}

// A group is measured side by side: one workload, size, rank count and worker count.
type group struct {
	load   *Workload
	params Params
	peers  []Peer
}

// A Plan is the list of groups to measure.
type Plan struct {
	cfg    Config
	groups []group
}

// NewPlan selects the groups of loads that cfg names.
func NewPlan(loads []Workload, cfg Config) *Plan {
	p := &Plan{cfg: cfg}
	for i := range loads {
		w := &loads[i]
		if cfg.Run != nil && !cfg.Run.MatchString(w.Name) {
			continue
		}
		peers := selectPeers(w.Peers, cfg)
		if len(peers) == 0 {
			continue
		}
		sizes, ranks := w.Sizes, w.Ranks
		if cfg.Quick {
			sizes = w.Quick
		}
		if ranks == nil {
			ranks = []int{1}
		}
		for _, size := range sizes {
			for _, r := range ranks {
				for _, n := range cfg.Workers {
					p.groups = append(p.groups, group{
						load:   w,
						params: Params{Workers: n, Ranks: r, Size: size, Quick: cfg.Quick, MinTime: cfg.MinTime},
						peers:  peers,
					})
				}
			}
		}
	}
	return p
}

func selectPeers(all []Peer, cfg Config) []Peer {
	var out []Peer
	for _, p := range all {
		named := slices.Contains(cfg.Only, p.Name)
		if len(cfg.Only) > 0 && !named || p.Extra && !cfg.Extra && !named {
			// a named extra peer is measured
			continue
		}
		out = append(out, p)
	}
	return out
}

// Rows returns how many rows the plan will have when no peer is skipped.
func (p *Plan) Rows() int {
	n := 0
	for _, g := range p.groups {
		n += len(g.peers)
	}
	return n
}

// Samples returns how many samples the plan takes at most, the unrecorded ones included.
func (p *Plan) Samples() int { return p.Rows() * (p.cfg.Reps + 1) }

// Outline returns the rows of the plan without their results, in the order in which they will be
// reported.
func (p *Plan) Outline() []Row {
	var rows []Row
	for _, g := range p.groups {
		for _, peer := range g.peers {
			rows = append(rows, g.row(peer.Name))
		}
	}
	return rows
}

func (g *group) row(peer string) Row {
	return Row{Name: g.load.Name, Peer: peer, Workers: g.params.Workers, Ranks: g.params.Ranks, Size: g.params.Size, Unit: g.load.Unit}
}
