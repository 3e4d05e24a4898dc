// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"errors"

	"weft/internal/env"
	"weft/internal/fabric"
	"weft/internal/fabric/inproc"
	"weft/internal/fabric/mpi"
	"weft/internal/fabric/shm"
	"weft/internal/fabric/tcp"
	"weft/internal/launch"
	"weft/internal/launch/bind"
)

// providers are the fabrics of this build, the best first.
var providers = []provider{
	{name: "shm", connects: "processes of one node", priority: env.SHM, nodeOnly: true, open: openSHM,
		trial: func() (fabric.Endpoint, error) { return shm.New(shm.Config{Size: 1}) }},
	{name: "mpi", connects: "processes that mpirun or srun has started", priority: env.MPI, open: openMPI,
		trial: mpi.Sketch, carrier: mpi.Version},
	{name: "tcp", connects: "processes", priority: env.TCP, open: openTCP,
		trial: func() (fabric.Endpoint, error) { // nobody else is to know it
			return tcp.New(tcp.Config{Size: 1, Secret: make([]byte, 32), Networks: env.Networks.Text()})
		}},
}

// Fabric says what can carry messages between ranks, and what it can do here.
type Fabric struct {
	Name, Connects string
	Problem        string // why it cannot be used here; empty if it can
	Library        string
	Caps           fabric.Caps
}

// Fabrics lists the fabrics of this build, that of one process first. It tries each.
func Fabrics() []Fabric {
	all := []Fabric{describe("inproc", "goroutines of one process", alone)}
	wanted, err := wishes(providers)
	for i, here := range providers {
		f := describe(here.name, here.connects, here.trial)
		switch {
		case err != nil:
			f.Problem = err.Error()
		case wanted[i] == 0:
			f.Problem = "switched off by " + here.priority.Name + " or " + env.Fabrics.Name
		}
		if here.carrier != nil {
			f.Library = here.carrier()
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
	f.Caps = ep.Caps(0)
	if err := ep.Close(); err != nil {
		f.Problem = err.Error()
	}
	return f
}

// alone is the endpoint of a rank that is alone.
func alone() (fabric.Endpoint, error) {
	eps, err := inproc.New(1)
	if err != nil {
		return nil, err
	}
	return eps[0], nil
}

func openSHM(j *Job) (opened, error) {
	single, err := env.SingleCopy.Value()
	if err != nil {
		return opened{}, err
	}
	var peers []launch.Peer
	ep, err := shm.New(shm.Config{
		Rank: j.Rank, Size: j.Size, SingleCopy: single,
		Lookup: func(rank int) (string, error) { return addrOf(peers, rank, "shm") },
	})
	if err != nil {
		return opened{}, err
	}
	return opened{
		addr: []byte(ep.Addr()),
		use: func(all []launch.Peer, _ []int) (fabric.Endpoint, error) {
			peers = all
			return ep, nil
		},
		drop: ep.Close,
	}, nil
}

func openMPI(j *Job) (opened, error) {
	switch {
	case j.mpi != nil:
		return opened{
			use:  func([]launch.Peer, []int) (fabric.Endpoint, error) { return j.mpi, nil },
			drop: j.mpi.Close,
		}, nil
	case mpi.Built:
		return opened{}, errors.New("it was not started by mpirun or srun")
	}
	return opened{}, mpi.ErrAbsent
}

// tcpSettings are what the environment says of TCP, but for the networks, of which a machine needs
// to have those that it uses.
func tcpSettings() (cfg tcp.Config, err error) {
	var problems [3]error
	cfg.Retry, problems[0] = env.Retry.Value()
	cfg.DeadAfter, problems[1] = env.DeadAfter.Value()
	cfg.TLS, problems[2] = tcp.TLSFromEnvironment()
	return cfg, errors.Join(problems[:]...)
}

func openTCP(j *Job) (opened, error) {
	cfg, err := tcpSettings()
	if err != nil {
		return opened{}, err
	}
	var peers []launch.Peer
	served := make([]bool, j.Size)
	met := make(chan struct{})
	cfg.Rank, cfg.Size, cfg.Secret, cfg.Everywhere, cfg.Networks, cfg.Failed = j.Rank, j.Size, j.secret, j.spread, env.Networks.Text(), &j.Failed
	cfg.Serves = func(rank int) bool { return served[rank] }
	cfg.Lookup = func(ctx context.Context, rank int) (string, error) {
		select {
		case <-met:
			return addrOf(peers, rank, "tcp")
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	ep, err := tcp.New(cfg)
	if err != nil {
		return opened{}, err
	}
	return opened{
		addr: []byte(ep.Addr()),
		use: func(all []launch.Peer, mine []int) (fabric.Endpoint, error) {
			peers = all
			for _, r := range mine {
				served[r] = true
			}
			close(met)
			return ep, nil
		},
		drop: ep.Close,
	}, nil
}

// addrOf returns where a rank is to be found by a fabric.
func addrOf(peers []launch.Peer, rank int, name string) (string, error) {
	a, err := decode(peers[rank].Addrs[name])
	return string(a.addr), err
}

// ownProcessors says which processors this process may use, nil if it does not know. A launcher may
// have bound it to a part of the machine.
func ownProcessors() []byte {
	s, err := bind.Allowed()
	if err != nil || len(s.String()) > launch.MaxAddr {
		return nil
	}
	return []byte(s.String())
}

// nodeProcessors returns how many processors the ranks of a rank's node may use together; 0 if one
// of them does not say.
func nodeProcessors(peers []launch.Peer, rank int) int {
	all := map[int]bool{}
	for i := range peers {
		if peers[i].Node != peers[rank].Node {
			continue
		}
		s, err := bind.ParseSet(string(peers[i].Addrs[processorsName]))
		if err != nil {
			return 0
		}
		for _, cpu := range s {
			all[cpu] = true
		}
	}
	return len(all)
}
