// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"weft/internal/env"
	"weft/internal/fabric"
	"weft/internal/fabric/mux"
	"weft/internal/launch"
)

// connect is Connect once j.meet is set.
func (j *Job) connect(ctx context.Context, own Own) (ep fabric.Endpoint, err error) {
	priority, err := priorities(providers)
	// Settings are checked even where no rank may need them.
	if err == nil {
		_, err = env.SingleCopy.Value()
	}
	if err == nil && priority[slices.Index(env.FabricNames, "tcp")] > 0 {
		_, err = tcpSettings()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if j.Size == 1 {
		return alone()
	}
	said := map[string][]byte{settingsName: own.Settings, processorsName: ownProcessors()}
	links := map[string]opened{}
	var made []fabric.Endpoint
	defer func() {
		for _, l := range links { // those that were not used
			err = errors.Join(err, l.drop())
		}
		if err == nil {
			return
		}
		ep = nil
		for _, e := range made {
			err = errors.Join(err, e.Close())
		}
	}()
	for i, f := range providers {
		a := access{priority: priority[i]}
		if a.priority > 0 {
			l, err := f.open(j)
			if err != nil {
				a.problem = err.Error()
			} else {
				a.addr = l.addr
				links[f.name] = l
			}
		}
		said[f.name] = a.encode()
	}
	peers, err := j.meet(ctx, said)
	if err != nil {
		return nil, err
	}
	j.near = Near{peers[j.Rank].LocalSize, nodeProcessors(peers, j.Rank)}
	for r, p := range peers {
		if string(p.Addrs[settingsName]) != string(own.Settings) {
			return nil, own.Differ(r, p.Addrs[settingsName])
		}
	}
	if j.sides, err = sidesOf(peers); err != nil {
		return nil, err
	}
	names, err := names(j.Rank, j.sides)
	if err != nil {
		return nil, err
	}
	byRank := make([]fabric.Endpoint, j.Size)
	for _, f := range providers {
		var mine []int
		for r, n := range names {
			if n == f.name {
				mine = append(mine, r)
			}
		}
		if mine == nil {
			continue
		}
		l := links[f.name]
		delete(links, f.name)
		ep, err := l.use(peers, mine)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		made = append(made, ep)
		for _, r := range mine {
			byRank[r] = ep
		}
	}
	return mux.New(j.Rank, byRank, nil), nil
}

// sidesOf returns the offers of all ranks, by rank.
func sidesOf(peers []launch.Peer) ([]side, error) {
	sides := make([]side, len(peers))
	for r, p := range peers {
		sides[r] = side{rank: r, offer: map[string]access{}, node: string(p.Node)}
		for _, f := range providers {
			b, ok := p.Addrs[f.name]
			if !ok {
				continue
			}
			a, err := decode(b)
			if err != nil {
				return nil, fmt.Errorf("%s of rank %d: %w", f.name, r, err)
			}
			sides[r].offer[f.name] = a
		}
	}
	return sides, nil
}

// Near returns the numbers of ranks and processors of this node, once the ranks are connected.
func (j *Job) Near() Near { return j.near }

// Together reports whether the first n ranks of group (nil: ranks 0 to n-1) are pairwise connected
// by shared memory. All ranks get the same answer.
func (j *Job) Together(group []int32, n int) bool { return together(j.sides, group, n) }

func together(sides []side, group []int32, n int) bool {
	at := func(i int) side {
		if group != nil {
			i = int(group[i])
		}
		return sides[i]
	}
	for i := range n {
		for k := range i {
			if name, err := choose(providers, at(i), at(k)); err != nil || name != "shm" {
				return false
			}
		}
	}
	return true
}

// names returns the name of the fabric to each rank. To itself a rank uses the best of the fabrics
// that it uses for others.
func names(self int, sides []side) ([]string, error) {
	names := make([]string, len(sides))
	best := len(env.FabricNames)
	for r := range sides {
		if r == self {
			continue
		}
		var err error
		if names[r], err = choose(providers, sides[self], sides[r]); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoFabric, err)
		}
		best = min(best, slices.Index(env.FabricNames, names[r]))
	}
	names[self] = env.FabricNames[best]
	return names, nil
}
