// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
	"weft/internal/progress"
)

// A loop of Iprobe does not take the lock that senders need.
func TestIprobeLeavesTheLockToSenders(t *testing.T) {
	require.NoError(t, Run(t.Context(), Config{Ranks: 1}, func(c *Comm) error {
		for _, tag := range []int{1, AnyTag} {
			probe := func() error {
				if here, _, err := c.Iprobe(0, tag); here || err != nil {
					return fmt.Errorf("found %v, error %w", here, err)
				}
				return nil
			}
			if err := probe(); err != nil {
				return err
			}
			done := make(chan error, 1)
			c.proc.mu.Lock()
			go func() { done <- probe() }()
			select {
			case err := <-done:
				c.proc.mu.Unlock()
				if err != nil {
					return err
				}
			case <-time.After(10 * time.Second):
				c.proc.mu.Unlock()
				return errors.New("Iprobe waits for the lock")
			}
		}
		return nil
	}))
}

// Iprobe finds a sent message at once, whatever it and others have probed for before, and no
// received message.
func TestIprobeFindsWhatIsSent(t *testing.T) {
	const far = 1 << 22 // does not fit into a word
	require.NoError(t, Run(t.Context(), Config{Ranks: 1}, func(world *Comm) error {
		other, err := world.Dup()
		if err != nil {
			return err
		}
		probe := func(c *Comm, tag int, want bool) error {
			here, st, err := c.Iprobe(AnySource, tag)
			if err == nil && (here != want || here && tag != AnyTag && st.Tag != tag) {
				err = fmt.Errorf("Iprobe of tag %d: found %v, %+v; want %v", tag, here, st, want)
			}
			return err
		}
		for _, tag := range []int{1, 2, far} {
			for _, before := range []int{1, 2, far, AnyTag} {
				for _, c := range []*Comm{world, other} {
					in := []int{0}
					err := errors.Join(
						probe(c, before, false), probe(c, before, false),
						c.Send(Of([]int{7}), 0, tag),
						// nothing may have been found for this key before
						probe(c, before, before == tag || before == AnyTag),
						probe(c, tag, true), probe(c, AnyTag, true), probe(c, tag+1, false), probe(c, tag+1, false), probe(c, tag, true))
					if err != nil {
						return err
					}
					if _, err := c.Recv(Of(in), 0, tag); err != nil {
						return err
					}
					if err := errors.Join(expect("what has arrived", 7, in[0]), probe(c, tag, false), probe(c, AnyTag, false)); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}))
}

// pollOnce is a source that calls come when it is first polled, and finds nothing later.
type pollOnce struct {
	fabric.NoSource
	come func()
}

func (p *pollOnce) Poll(bool) bool {
	come := p.come
	p.come = nil
	if come != nil {
		come()
	}
	return come != nil
}

// Iprobe finds what has come and was not delivered yet, in one call.
func TestIprobeMakesProgress(t *testing.T) {
	require.NoError(t, Run(t.Context(), Config{Ranks: 1}, func(c *Comm) error {
		before := c.proc.engine
		defer func() { c.proc.engine = before }()
		for _, tag := range []int{1, 2} { // 2: what comes has another tag
			var sent error
			c.proc.engine = progress.New([]fabric.Source{&pollOnce{come: func() { sent = c.Send(Of([]int{7}), 0, 1) }}}, progress.Config{Ranks: 1})
			here, st, err := c.Iprobe(0, tag)
			if err := errors.Join(sent, err, expect("found", tag == 1, here)); err != nil {
				return err
			}
			if here && st.Tag != 1 {
				return fmt.Errorf("found %+v", st)
			}
		}
		c.proc.engine = before
		for range 2 {
			if _, err := c.Recv(Of(make([]int, 1)), 0, 1); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Goroutines that loop around Iprobe for different keys miss nothing while others send.
func TestHammerIprobe(t *testing.T) {
	const n = 300
	require.NoError(t, Run(t.Context(), Config{Ranks: 2}, func(c *Comm) error {
		errs := make(chan error)
		loops := []int{1, 2, 3}
		for _, tag := range loops {
			go func() {
				errs <- func() error {
					peer, deadline := 1-c.Rank(), time.Now().Add(time.Minute)
					for k := range n {
						if err := c.Send(Of([]int{k}), peer, tag); err != nil {
							return err
						}
						for {
							here, _, err := c.Iprobe(peer, tag)
							if err != nil {
								return err
							}
							if here {
								break
							}
							if time.Now().After(deadline) {
								return fmt.Errorf("message %d of tag %d is not found", k, tag)
							}
						}
						in := []int{0}
						if _, err := c.Recv(Of(in), peer, tag); err != nil {
							return err
						}
						if err := expect("what has arrived", k, in[0]); err != nil {
							return err
						}
					}
					return nil
				}()
			}()
		}
		var err error
		for range loops {
			err = errors.Join(err, <-errs)
		}
		return err
	}))
}

// After an Iprobe that finds a message, one receive, the next, does not poll first.
func TestProbeThatFinds(t *testing.T) {
	require.NoError(t, Run(t.Context(), Config{Ranks: 1}, func(c *Comm) error {
		probe := &c.proc.probe
		require.False(t, probe.Taken(), "none has been made")
		here, _, err := c.Iprobe(0, 1)
		require.NoError(t, err)
		require.False(t, here)
		require.False(t, probe.Taken(), "nothing was here")
		require.NoError(t, c.Send(Of([]int{7}), 0, 1))
		for range 2 {
			here, _, err = c.Iprobe(0, 1)
			require.NoError(t, err)
			require.True(t, here)
		}
		require.True(t, probe.Taken())
		require.False(t, probe.Taken(), "once")
		_, err = c.Recv(Of([]int{0}), 0, 1)
		return err
	}))
}
