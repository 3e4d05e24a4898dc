// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package launch

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// late is how long callers sleep before the end.
const late = 300 * time.Millisecond

var errEnough = errors.New("enough")

// Each wait of a rank for others is ended by each kind of end, even long after the caller has gone
// to sleep.
func TestLateEnds(t *testing.T) {
	waits := map[string]struct {
		begin func(ctx context.Context, c *Client) error
		here  func(s *Server) bool // whether the launcher knows that rank 0 waits
	}{
		"get": {
			func(ctx context.Context, c *Client) error { _, err := c.Get(ctx, 1, "k"); return err },
			func(s *Server) bool { return s.space.members[0].waits == 1 },
		},
		"fence": {
			func(ctx context.Context, c *Client) error { return c.Fence(ctx) },
			func(s *Server) bool { return s.space.round.called[0] },
		},
		"meet": {
			func(ctx context.Context, c *Client) error { _, err := c.Meet(ctx, nil); return err },
			func(s *Server) bool { return s.space.round.called[0] },
		},
	}
	ends := map[string]struct {
		end  func(s *Server, cs []*Client, cancel func(error))
		want error
		over bool // rank 0 has no launcher any more
	}{
		"it comes": {func(_ *Server, cs []*Client, _ func(error)) {
			_ = cs[1].Put("k", nil)
			go func() { _, _ = cs[1].Meet(context.Background(), nil) }()
		}, nil, false},
		"the rank leaves":   {func(_ *Server, cs []*Client, _ func(error)) { _ = cs[1].Leave() }, ErrEnded, false},
		"the rank dies":     {func(s *Server, _ []*Client, _ func(error)) { s.Ended(1, 137, "killed") }, ErrEnded, false},
		"its socket ends":   {func(_ *Server, cs []*Client, _ func(error)) { _ = cs[1].c.Close() }, ErrEnded, false},
		"abort":             {func(s *Server, _ []*Client, _ func(error)) { s.Abort(&Abort{Rank: 1, Code: 3, Reason: "no more"}) }, ErrAborted, false},
		"abort of no rank":  {func(s *Server, _ []*Client, _ func(error)) { s.Abort(&Abort{Rank: -1, Code: 3, Reason: "no more"}) }, ErrAborted, false},
		"cancel":            {func(_ *Server, _ []*Client, cancel func(error)) { cancel(errEnough) }, errEnough, false},
		"the launcher goes": {func(s *Server, _ []*Client, _ func(error)) { _ = s.Close() }, ErrLauncherLost, true},
		"it leaves itself":  {func(_ *Server, cs []*Client, _ func(error)) { _ = cs[0].Leave() }, ErrLeft, true},
	}
	var finish []func()
	for wait, w := range waits {
		for end, e := range ends {
			name := wait + ", " + end
			s := newTestServer(t, ServerConfig{Ranks: 2})
			cs := joinAll(t, s)
			ctx, cancel := context.WithCancelCause(t.Context())
			t.Cleanup(func() { cancel(nil) })
			result := make(chan error, 1)
			go func() { result <- w.begin(ctx, cs[0]) }()
			require.Eventually(t, func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return w.here(s)
			}, 20*time.Second, time.Millisecond, name)
			finish = append(finish, func() {
				require.Empty(t, result, name)
				e.end(s, cs, cancel)
				select {
				case err := <-result:
					require.ErrorIs(t, err, e.want, name)
				case <-time.After(20 * time.Second):
					t.Fatal("it still waits: ", name)
				}
				if e.over {
					require.Error(t, cs[0].Put("later", nil), name)
				} else if !errors.Is(e.want, ErrAborted) {
					require.NoError(t, cs[0].Put("later", nil), "%s: rank 0 goes on", name)
					_, err := cs[0].Get(t.Context(), 0, "later")
					require.NoError(t, err, name)
				}
			})
		}
	}
	time.Sleep(late) // all of them
	for _, f := range finish {
		f()
	}
}

// A launcher that accepts a connection and sends nothing, or only half of its hello, does not hold
// up a rank whose context ends.
func TestLateEndOfJoin(t *testing.T) {
	for name, says := range map[string][]byte{"nothing": nil, "half a hello": []byte("weft")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestServer(t, ServerConfig{Ranks: 1})
			require.NoError(t, s.l.Close())
			l, err := net.Listen("unix", filepath.Join(s.dir, socketFile))
			require.NoError(t, err)
			defer l.Close()
			ctx, cancel := context.WithCancelCause(t.Context())
			result := make(chan error, 1)
			go func() { _, err := s.Identity(0).Join(ctx); result <- err }()
			c, err := l.Accept()
			require.NoError(t, err)
			defer c.Close()
			_, _ = c.Write(says)
			time.Sleep(late)
			require.Empty(t, result)
			cancel(errEnough)
			require.ErrorIs(t, <-result, errEnough)
		})
	}
}
