// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"weft/internal/fabric"
	"weft/internal/fabric/inproc"
	"weft/internal/fabric/mux"
	"weft/internal/fabric/shm"
	"weft/internal/fabric/tcp"
	"weft/internal/launch"
	"weft/internal/processors"
	"weft/internal/vigil"
)

// meeting is how a rank that is a process finds the others, whoever has started them.
type meeting struct {
	rank, size int
	node       launch.NodeID
	secret     []byte          // of the job
	segments   string          // directory for shared segments
	spread     bool            // there are ranks on other machines
	mpi        fabric.Endpoint // connects all ranks, if MPI has started them; nil otherwise
	// meet gives every rank what all say of themselves, by rank. All ranks call it once.
	meet func(ctx context.Context, said map[string][]byte) ([]launch.Peer, error)

	together func(group []int32, n int) bool // set by connect, for the world
	failed   atomic.Bool                     // set by the world, for fabrics: the run has failed, and its end is not to wait for anybody
}

// provider makes one rank's end of a fabric between processes. Its name is one of mux.Names.
type provider struct {
	name, connects string
	// open makes what others have to know of: before the ranks meet. An error is why this rank cannot use the fabric; others
	// do then, and the rank fails only if it needs it.
	open func(m *meeting) (opened, error)
	// trial opens an endpoint that nobody uses, to see whether that is possible here, and for its Caps.
	trial func() (fabric.Endpoint, error)
}

// opened is a fabric between open and use.
type opened struct {
	addr []byte // where others find this rank
	// use returns the endpoint for the ranks mine, this one among them or not. peers is what all have said.
	use func(ctx context.Context, peers []launch.Peer, mine []int) (fabric.Endpoint, error)
	// drop is called instead of use, if no rank is reached by this fabric.
	drop func() error
}

// providers are the fabrics of this build.
var providers = []provider{shmProvider, mpiProvider, tcpProvider}

// statsName is the name under which ranks say what they count.
const statsName = "statistics"

// connect makes this rank's endpoint: of the fabrics that connect it with the others, each rank by one of them.
func connect(ctx context.Context, m *meeting, stats *statistics) (ep fabric.Endpoint, err error) {
	wishes, err := mux.WishesFromEnv(os.Getenv)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if _, err := singleCopy(os.Getenv(EnvSingleCopy)); err != nil {
		return nil, err
	}
	if wishes[tcpName] > 0 {
		if _, err := tcpFromEnv(os.Getenv); err != nil { // though no rank may need it
			return nil, err
		}
	}
	if m.size == 1 {
		eps, err := inproc.New(1)
		if err != nil {
			return nil, err
		}
		return eps[0], nil
	}
	said := map[string][]byte{statsName: stats.text(), processorsName: ownProcessors()}
	links := map[string]opened{}
	var made []fabric.Endpoint
	defer func() {
		for _, l := range links { // those that nobody has taken over
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
	for _, p := range providers {
		a := mux.Access{Priority: wishes[p.name]}
		if a.Priority > 0 {
			l, err := p.open(m)
			if err != nil {
				a.Problem = err.Error()
			} else {
				a.Addr = l.addr
				links[p.name] = l
			}
		}
		said[p.name] = a.Encode()
	}
	peers, err := m.meet(ctx, said)
	if err != nil {
		return nil, err
	}
	if err := agreeStatistics(m.rank, stats.text(), func(rank int) []byte { return peers[rank].Addrs[statsName] }, m.size); err != nil {
		return nil, err
	}
	sides, err := sidesOf(peers)
	if err != nil {
		return nil, err
	}
	m.together = func(group []int32, n int) bool { return together(sides, group, n) }
	names, err := choose(m.rank, sides)
	if err != nil {
		return nil, err
	}
	byRank := make([]fabric.Endpoint, m.size)
	for _, name := range mux.Names {
		var mine []int
		for r, n := range names {
			if n == name {
				mine = append(mine, r)
			}
		}
		if mine == nil {
			continue
		}
		l := links[name]
		delete(links, name)
		ep, err := l.use(ctx, peers, mine)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		made = append(made, ep)
		for _, r := range mine {
			byRank[r] = ep
		}
	}
	return mux.New(m.rank, byRank), nil
}

// sidesOf returns what all ranks have said of their fabrics.
func sidesOf(peers []launch.Peer) ([]mux.Side, error) {
	sides := make([]mux.Side, len(peers))
	for r, p := range peers {
		sides[r] = mux.Side{Rank: r, Offer: mux.Offer{}, Node: string(p.Node)}
		for _, name := range mux.Names {
			b, ok := p.Addrs[name]
			if !ok {
				continue
			}
			a, err := mux.Decode(b)
			if err != nil {
				return nil, fmt.Errorf("%s of rank %d: %w", name, r, err)
			}
			sides[r].Offer[name] = a
		}
	}
	return sides, nil
}

// together reports whether some ranks are pairwise connected by shared memory.
func together(sides []mux.Side, group []int32, n int) bool {
	at := func(i int) mux.Side {
		if group != nil {
			i = int(group[i])
		}
		return sides[i]
	}
	for i := range n {
		for j := range i {
			if name, err := mux.Choose(at(i), at(j)); err != nil || name != shmName {
				return false
			}
		}
	}
	return true
}

// choose returns the name of the fabric to each rank. To itself a rank uses one of those that it uses for others.
func choose(self int, sides []mux.Side) ([]string, error) {
	names := make([]string, len(sides))
	for r := range sides {
		if r == self {
			continue
		}
		var err error
		if names[r], err = mux.Choose(sides[self], sides[r]); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoFabric, err)
		}
	}
	used := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "" })
	names[self] = slices.MinFunc(used, func(a, b string) int { return slices.Index(mux.Names, a) - slices.Index(mux.Names, b) })
	return names, nil
}

// addrOf returns where a rank is to be found by a fabric.
func addrOf(peers []launch.Peer, rank int, name string) ([]byte, error) {
	a, err := mux.Decode(peers[rank].Addrs[name])
	return a.Addr, err
}

const tcpName = "tcp"

var tcpProvider = provider{
	name: tcpName, connects: "processes",
	open: func(m *meeting) (opened, error) {
		set, err := tcpFromEnv(os.Getenv)
		if err != nil {
			return opened{}, err
		}
		var peers []launch.Peer
		served := make([]bool, m.size)
		met := make(chan struct{})
		ep, err := tcp.New(tcp.Config{
			Rank: m.rank, Size: m.size, Secret: m.secret, Everywhere: m.spread, Networks: os.Getenv(tcp.EnvNetwork), Retry: set.retry, TLS: set.secure, DeadAfter: set.deadAfter,
			Failed: &m.failed,
			Serves: func(rank int) bool { return served[rank] },
			Lookup: func(ctx context.Context, rank int) (string, error) {
				select {
				case <-met:
				case <-ctx.Done():
					return "", context.Cause(ctx)
				}
				addr, err := addrOf(peers, rank, tcpName)
				return string(addr), err
			},
		})
		if err != nil {
			return opened{}, err
		}
		return opened{
			addr: []byte(ep.Addr()),
			use: func(_ context.Context, all []launch.Peer, mine []int) (fabric.Endpoint, error) {
				peers = all
				for _, r := range mine {
					served[r] = true
				}
				close(met)
				ep.Crowd(all[m.rank].LocalSize, nodeProcessors(all, m.rank))
				return ep, nil
			},
			drop: ep.Close,
		}, nil
	},
	trial: func() (fabric.Endpoint, error) {
		return tcp.New(tcp.Config{Size: 1, Secret: make([]byte, 32), Networks: os.Getenv(tcp.EnvNetwork)}) // nobody else is to know it
	},
}

// tcpSettings are what the environment says of TCP, but for the networks, of which a machine needs to have those that it uses.
type tcpSettings struct {
	retry     int
	deadAfter time.Duration
	secure    *tls.Config // nil: connections are not encrypted
}

func tcpFromEnv(getenv func(string) string) (s tcpSettings, err error) {
	if s.retry, err = retries(getenv(tcp.EnvRetry)); err != nil {
		return s, err
	}
	if s.deadAfter, err = vigil.FromEnv(getenv); err != nil {
		return s, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if s.secure, err = tcp.TLSFromEnv(getenv); err != nil {
		return s, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return s, nil
}

// retries reads PSP_RETRY.
func retries(text string) (int, error) {
	if text == "" {
		return tcp.DefaultRetry, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > tcp.MaxRetry {
		return 0, fmt.Errorf("%w: %s=%q; it is how often a connection is tried again, 0 to %d", ErrConfig, tcp.EnvRetry, text, tcp.MaxRetry)
	}
	return n, nil
}

const shmName = "shm"

// EnvSingleCopy is the environment variable that says from how many bytes on a message between two processes of a node is copied once, by the kernel.
const EnvSingleCopy = "WEFT_SINGLE_COPY"

// DefaultSingleCopy is its default.
const DefaultSingleCopy = shm.DefaultSingleCopy

// singleCopy reads EnvSingleCopy.
func singleCopy(text string) (int, error) {
	switch text {
	case "":
		return 0, nil
	case "never":
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%w: %s=%q; it is a number of bytes, at least 1, or never", ErrConfig, EnvSingleCopy, text)
	}
	return n, nil
}

var shmProvider = provider{
	name: shmName, connects: "processes of one node",
	open: func(m *meeting) (opened, error) {
		single, err := singleCopy(os.Getenv(EnvSingleCopy))
		if err != nil {
			return opened{}, err
		}
		var peers []launch.Peer
		ep, err := shm.New(shm.Config{
			Rank: m.rank, Size: m.size, SingleCopy: single,
			Lookup: func(rank int) (string, error) {
				addr, err := addrOf(peers, rank, shmName)
				return string(addr), err
			},
		})
		if err != nil {
			return opened{}, err
		}
		return opened{
			addr: []byte(ep.Addr()),
			use: func(_ context.Context, all []launch.Peer, mine []int) (fabric.Endpoint, error) {
				peers = all
				ep.Crowd(all[m.rank].LocalSize, nodeProcessors(all, m.rank))
				return ep, nil
			},
			drop: ep.Close,
		}, nil
	},
	trial: func() (fabric.Endpoint, error) { return shm.New(shm.Config{Size: 1}) },
}

// A large copy is shared between the two sides of a message when one of them is parked in its call: whoever came second
// wakes the other one before the copy instead of after it, and both take pieces until there are none left. Two
// cores copy more than one, and the woken side gets a warm half. If the woken side gets no processor in time, it
// finds everything done and goes on; nothing waits for it then.
//
//	open ──join (woken side)──→ joined    both take pieces; who ends second releases who ended first
//	  └────close (other side)──→ closed    all pieces were copied without the woken side
//
// The side that ended first parks until the other has finished its last piece, so neither returns while its memory is
// in use.
type cocopy struct {
	owner chan struct{} // constant: releases the side that came second; capacity 1

	// Constant from taking it out of the pool until both sides have left.
	dst, src []byte
	helper   chan struct{} // wakes the blocked side, and releases it at the end

	state atomic.Uint32 // open, joined, closed
	next  atomic.Int64  // offset of the first piece that nobody has taken
	ends  atomic.Int32  // sides that have ended, once joined
	users atomic.Int32  // sides that may still look; the last one returns it to the pool
}

var cocopies = sync.Pool{New: func() any { return &cocopy{owner: make(chan struct{}, 1)} }}

func newCocopy(dst, src []byte, helper chan struct{}) *cocopy {
	j := cocopies.Get().(*cocopy)
	j.dst, j.src, j.helper = dst, src, helper
	j.state.Store(open)
	j.next.Store(0)
	j.ends.Store(0)
	j.users.Store(2)
	return j
}

func (j *cocopy) leave() {
	if j.users.Add(-1) == 0 {
		j.dst, j.src, j.helper = nil, nil, nil
		cocopies.Put(j)
	}
}

// blockedSide is the side of a message whose goroutine is blocked and can help.
type blockedSide uint8

const (
	neither blockedSide = iota
	sender
	receiver
)

// side returns s if it is a blocked call that waits for an operation.
func (w waiterKind) side(s blockedSide) blockedSide {
	if w == blockedCall {
		return s
	}
	return neither
}

const (
	open = iota
	joined
	closed
)

const (
	// cocopyMin is the size from which copies are shared: to wake somebody on another core takes about as long as to copy
	// 64 KiB, so below some hundred KiB little would be left to share. From the benchmark of 1 MiB messages.
	cocopyMin = 256 << 10
	// cocopyPiece is small enough to end together, and large enough that taking it costs nothing beside it.
	cocopyPiece = 64 << 10
)

// shareable reports whether a copy is worth sharing and returns its two sides.
func shareable(dst, src *Buffer) (d, s []byte, ok bool) {
	if src.count != 1 || dst.count != 1 || src.Bytes() < cocopyMin || processors.Count() < 2 {
		return nil, nil, false
	}
	d, _ = dst.Contiguous()
	s, _ = src.Contiguous()
	return d[:min(len(d), len(s))], s[:min(len(d), len(s))], true
}

// run wakes the helper and copies. When it returns, everything is copied. The job must be in the helper's operation before.
func (j *cocopy) run() {
	j.helper <- struct{}{}
	j.pieces()
	if !j.state.CompareAndSwap(open, closed) {
		if j.ends.Add(1) == 2 {
			j.helper <- struct{}{}
		} else {
			<-j.owner
		}
	}
	j.leave()
}

// help is what a woken side does with the job that it finds, if it finds one. It returns nil, to forget the job by.
func (j *cocopy) help() *cocopy {
	if j == nil {
		return nil
	}
	if j.state.CompareAndSwap(open, joined) {
		j.pieces()
		if j.ends.Add(1) == 2 {
			j.owner <- struct{}{}
		} else {
			<-j.helper
		}
	}
	j.leave()
	return nil
}

func (j *cocopy) pieces() {
	n := int64(len(j.dst))
	for {
		lo := j.next.Add(cocopyPiece) - cocopyPiece
		if lo >= n {
			return
		}
		hi := min(lo+cocopyPiece, n)
		copy(j.dst[lo:hi], j.src[lo:hi])
	}
}
