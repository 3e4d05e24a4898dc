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
		trial: func() (fabric.Endpoint, error) {
			// no other rank connects, so the secret does not matter
			return tcp.New(tcp.Config{Size: 1, Secret: make([]byte, 32), Networks: env.Networks.Text()})
		}},
}

// Fabric describes a fabric, and what it can do on this machine.
type Fabric struct {
	Name, Connects string
	Problem        string // why it cannot be used here; empty if it can
	Library        string // that it uses, name and version; empty: none
	Caps           fabric.Caps
}

// Fabrics lists the fabrics of this build, that within one process first. It opens and closes an
// endpoint of each.
func Fabrics() []Fabric {
	all := []Fabric{describe("inproc", "goroutines of one process", alone)}
	priority, err := priorities(providers)
	for i, here := range providers {
		f := describe(here.name, here.connects, here.trial)
		switch {
		case err != nil:
			f.Problem = err.Error()
		case priority[i] == 0:
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

// alone returns the endpoint of a job with one rank.
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

// tcpSettings returns the environment's settings for TCP except the networks, which are checked
// only where TCP is opened: a machine needs to have only networks that it uses.
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

// addrOf returns the address of a rank for a fabric.
func addrOf(peers []launch.Peer, rank int, name string) (string, error) {
	a, err := decode(peers[rank].Addrs[name])
	return string(a.addr), err
}

// ownProcessors returns the processors that this process may use; nil if that is not known. A
// launcher may have bound the process to a part of the machine.
func ownProcessors() []byte {
	s, err := bind.Allowed()
	if err != nil || len(s.String()) > launch.MaxAddr {
		return nil
	}
	return []byte(s.String())
}

// nodeProcessors returns how many processors the ranks of a rank's node may use together; 0 if one
// of these ranks has not sent its processors.
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
