// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// side is an endpoint with one source; it keeps a log.
type side struct {
	fabric.Endpoint
	fabric.NoSource
	name string
	log  []string
}

func (s *side) Rank() int                { return 0 }
func (s *side) Size() int                { return 4 }
func (s *side) Sources() []fabric.Source { return []fabric.Source{s} }

func (s *side) Drop(peer int, err error) {
	s.log = append(s.log, s.name+" drops "+string(rune('0'+peer))+" "+err.Error())
}

func (s *side) Shared(rank int) ([]byte, error) {
	if s.name != "shm" {
		return nil, fabric.ErrUnsupported
	}
	return []byte{byte(rank)}, nil
}

// The sources are those of all fabrics, each once. A call for a peer goes to the fabric that
// reaches the peer.
func TestOneOfSeveral(t *testing.T) {
	mpi, tcp, shm := &side{name: "mpi"}, &side{name: "tcp"}, &side{name: "shm"}
	e := New(0, []fabric.Endpoint{mpi, tcp, shm, mpi}, nil)
	require.Equal(t, []fabric.Source{mpi, tcp, shm}, e.Sources())
	e.Drop(1, errors.New("x"))
	e.Drop(7, errors.New("x"))
	e.Drop(-1, errors.New("x"))
	require.Equal(t, []string{"tcp drops 1 x"}, append(append(mpi.log, tcp.log...), shm.log...))
	mem, err := e.Shared(2)
	require.NoError(t, err)
	require.Equal(t, []byte{2}, mem)
	_, err = e.Shared(1)
	require.ErrorIs(t, err, fabric.ErrUnsupported)
	for _, rank := range []int{-1, 4} {
		_, err = e.Shared(rank)
		require.ErrorIs(t, err, fabric.ErrRank)
	}
}
