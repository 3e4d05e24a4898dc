// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package solve

import "weft/comm"

// Tags of the blocking variant.
const (
	tagUp = iota
	tagDown
)

// blockingStep makes one time step. The ranks form a pipeline: each rank computes after the rank
// above. The waits cannot form a cycle, because a rank's first send is the last receive of the rank
// above before that rank computes.
func (s *Solver) blockingStep() error {
	g, c := s.cfg.Grid, s.cfg.Comm
	up, down := g.Rank-1, g.Rank+1
	n := g.RankRows()
	if !g.First() {
		if err := c.Send(comm.Of(g.Row(1, 1, g.Cols)), up, tagUp); err != nil {
			return err
		}
		if _, err := c.Recv(comm.Of(g.Row(0, 1, g.Cols)), up, tagDown); err != nil {
			return err
		}
	}
	if !g.Last() {
		if _, err := c.Recv(comm.Of(g.Row(n+1, 1, g.Cols)), down, tagUp); err != nil {
			return err
		}
	}
	for r := range g.BlockRows() {
		for b := range g.BlockCols() {
			s.cfg.Kernel(g.Cells, g.Stride, g.Block(r, b))
		}
	}
	if !g.Last() {
		return c.Send(comm.Of(g.Row(n, 1, g.Cols)), down, tagDown)
	}
	return nil
}
