// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
	"weft/internal/fabric/fabrictest"
	"weft/internal/progress"
)

var testSecret = []byte("0123456789abcdef0123456789abcdef")

// openAll returns n connected endpoints; change, if not nil, changes their configurations.
func openAll(t testing.TB, n int, change func(*Config)) []*Endpoint {
	eps := make([]*Endpoint, n)
	for r := range eps {
		// The times are long enough for a busy machine.
		cfg := Config{Rank: r, Size: n, Secret: testSecret, Lookup: func(_ context.Context, peer int) (string, error) { return eps[peer].Addr(), nil },
			DialTimeout: time.Minute, Linger: 30 * time.Second}
		if change != nil {
			change(&cfg)
		}
		e, err := New(cfg)
		require.NoError(t, err)
		eps[r] = e
	}
	t.Cleanup(func() {
		var wg sync.WaitGroup
		for _, e := range eps {
			wg.Go(func() { _ = e.Close() })
		}
		wg.Wait()
	})
	return eps
}

func asFabric(eps []*Endpoint) []fabric.Endpoint {
	out := make([]fabric.Endpoint, len(eps))
	for i, e := range eps {
		out[i] = e
	}
	return out
}

func TestConformance(t *testing.T) {
	fabrictest.Run(t, func(t *testing.T, n int) []fabric.Endpoint { return asFabric(openAll(t, n, nil)) })
}

// Ranks join and leave.
func TestGrowing(t *testing.T) {
	fabrictest.RunGrowing(t, func(t *testing.T, size, _ int) ([]fabric.Endpoint, func(int) fabric.Endpoint) {
		var addrs sync.Map // by rank
		lookup := func(_ context.Context, peer int) (string, error) {
			addr, ok := addrs.Load(peer)
			if !ok {
				return "", errors.New("it has not joined")
			}
			return addr.(string), nil
		}
		join := func(rank, size int) fabric.Endpoint {
			e, err := New(Config{Rank: rank, Size: size, Secret: testSecret, DialTimeout: time.Minute, Lookup: lookup})
			require.NoError(t, err)
			t.Cleanup(func() { _ = e.Close() })
			addrs.Store(rank, e.Addr())
			return e
		}
		var eps []fabric.Endpoint
		for rank := range size {
			eps = append(eps, join(rank, size))
		}
		return eps, func(rank int) fabric.Endpoint { return join(rank, rank+1) }
	})
}

func TestConformanceTLS(t *testing.T) {
	conf := testTLS(t)
	fabrictest.Run(t, func(t *testing.T, n int) []fabric.Endpoint {
		return asFabric(openAll(t, n, func(c *Config) { c.TLS = conf }))
	})
}

func testTLS(t *testing.T) *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"weft"}, NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: pool, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, ServerName: "weft"}
}

// lone returns an endpoint of two ranks without a listener.
func lone(cfg Config, h fabric.Handler) *Endpoint {
	e := &Endpoint{cfg: cfg, handler: h}
	_ = e.Grow(2)
	return e
}

// collect is a handler that counts frames and checks their order.
type collect struct {
	mu   sync.Mutex
	next map[int]uint64
	bad  atomic.Int32
	n    atomic.Int64
	lost chan int
	errs []error
	each func(src int, f fabric.Frame)
}

func newCollect() *collect { return &collect{next: map[int]uint64{}, lost: make(chan int, 64)} }

func (c *collect) Deliver(f *fabric.Frame) bool {
	src := int(f.Origin)
	c.mu.Lock()
	if c.next[src] != f.Head[0] {
		c.bad.Add(1)
	}
	c.next[src]++
	c.mu.Unlock()
	if c.each != nil {
		c.each(src, *f)
	}
	c.n.Add(1)
	return false
}

func (c *collect) Lost(src int, err error) {
	c.mu.Lock()
	c.errs = append(c.errs, err)
	c.mu.Unlock()
	c.lost <- src
}

func (c *collect) errors() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.errs)
}

// bind binds an endpoint, and an engine that polls it.
func bind(e *Endpoint, h fabric.Handler) *progress.Engine { return bindHeld(e, h, nil) }

// bindHeld is bind for an engine whose own goroutines do not poll before hold is closed.
func bindHeld(e *Endpoint, h fabric.Handler, hold <-chan struct{}) *progress.Engine {
	g := progress.New(e.Sources(), progress.Config{Ranks: 1, Hold: hold})
	e.Bind(h, g)
	return g
}

// engine returns the engine that bind has bound.
func engine(e *Endpoint) *progress.Engine { return e.progress.(*progress.Engine) }

func bindAll(eps []*Endpoint) []*collect {
	cs := make([]*collect, len(eps))
	for i, e := range eps {
		cs[i] = newCollect()
		bind(e, cs[i])
	}
	return cs
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 20*time.Second, time.Millisecond)
}

// All ranks send to all others at once, so that both ends of each pair dial. One connection
// remains, no frame is lost, and none overtakes another.
func TestBothDial(t *testing.T) {
	const n, frames = 5, 50
	for range 20 {
		eps := openAll(t, n, nil)
		cs := bindAll(eps)
		var wg sync.WaitGroup
		for _, e := range eps {
			wg.Go(func() {
				for i := range frames {
					for d := range n {
						if d != e.Rank() {
							_ = e.Send(d, fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(i)}, Data: make([]byte, i*100)})
						}
					}
				}
			})
		}
		wg.Wait()
		for _, c := range cs {
			eventually(t, func() bool { return c.n.Load() == (n-1)*frames || len(c.lost) > 0 })
			require.Empty(t, c.errors())
			require.Zero(t, c.bad.Load())
		}
		for _, e := range eps {
			wg.Go(func() { _ = e.Close() })
		}
		wg.Wait()
		for _, c := range cs {
			require.Empty(t, c.errors(), "closing is not a loss")
		}
	}
}

// Close writes the queued frames before it returns.
func TestCloseFlushes(t *testing.T) {
	eps := openAll(t, 2, nil)
	cs := bindAll(eps)
	const n = 100
	var done, here atomic.Int32
	for i := range n {
		f := fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(i)}, Data: make([]byte, MaxFrame/2)}
		require.NoError(t, eps[0].Send(1, f))
		eps[1].Expect(0, uint64(i), make([]byte, MaxFrame), func(err error) {
			if err == nil {
				here.Add(1)
			}
		})
		eps[0].Push(1, uint64(i), make([]byte, MaxFrame), func(err error) {
			if err == nil {
				done.Add(1)
			}
		})
	}
	require.NoError(t, eps[0].Close())
	require.EqualValues(t, n, done.Load())
	eventually(t, func() bool { return cs[1].n.Load() == n && here.Load() == n })
	require.Zero(t, cs[1].bad.Load())
	require.ErrorIs(t, eps[0].Send(1, fabric.Frame{}), fabric.ErrClosed)
}

// A broken connection is reported once on each side. Transfers end, and later ones are refused with
// the reason.
func TestLost(t *testing.T) {
	eps := openAll(t, 2, nil)
	cs := bindAll(eps)
	block := make(chan struct{})
	cs[1].each = func(int, fabric.Frame) { <-block }
	var ended atomic.Int32
	const n = 200
	for i := range n {
		require.NoError(t, eps[0].Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(i)}}))
		eps[0].Push(1, uint64(i), make([]byte, MaxFrame), func(error) { ended.Add(1) })
		eps[0].Expect(1, uint64(i), make([]byte, 10), func(err error) {
			if err != nil {
				ended.Add(1)
			}
		})
	}
	<-eps[0].peers.At(1).opened
	<-eps[1].peers.At(0).opened
	eps[0].peers.At(1).hangUp(both)
	require.Equal(t, 1, <-cs[0].lost)
	close(block)
	require.Equal(t, 0, <-cs[1].lost)
	eventually(t, func() bool { return ended.Load() == 2*n })
	require.ErrorContains(t, eps[0].Send(1, fabric.Frame{}), "rank 1")
	require.Empty(t, cs[0].lost)
	require.Empty(t, cs[1].lost)
}

// Without a listener at its address, a peer is lost.
func TestNoListener(t *testing.T) {
	eps := openAll(t, 2, func(c *Config) { c.DialTimeout = time.Second })
	cs := bindAll(eps)
	require.NoError(t, eps[1].ln.Close())
	require.NoError(t, eps[0].Send(1, fabric.Frame{}))
	require.Equal(t, 1, <-cs[0].lost)
	require.Error(t, eps[0].Send(1, fabric.Frame{}))
}

// A connection without a proof is closed, whatever its other end sends, and the job continues.
func TestUnprovedConnections(t *testing.T) {
	eps := openAll(t, 2, func(c *Config) { c.DialTimeout = 2 * time.Second })
	cs := bindAll(eps)
	hello := func(rank, size uint32) []byte {
		b := append([]byte(magic), version, 0, 0, 0, byte(rank), byte(rank>>8), 0, 0, byte(size), 0, 0, 0)
		return append(b, make([]byte, nonceSize)...)
	}
	for name, says := range map[string][]byte{
		"nothing":       nil,
		"garbage":       bytes.Repeat([]byte("x"), 4096),
		"http":          []byte("GET / HTTP/1.1\r\nHost: weft\r\n\r\n                    "),
		"no proof":      append(hello(1, 2), make([]byte, 32)...),
		"bad rank":      append(hello(7, 2), make([]byte, 32)...),
		"itself":        append(hello(0, 2), make([]byte, 32)...),
		"other size":    append(hello(1, 3), make([]byte, 32)...),
		"other version": append([]byte(magic+"\x09\x00\x00\x00"), make([]byte, 64)...),
	} {
		c, err := net.Dial("tcp", eps[0].Addr())
		require.NoError(t, err)
		if len(says) > 0 {
			_, _ = c.Write(says)
		}
		_ = c.(*net.TCPConn).CloseWrite()
		buf := make([]byte, 256)
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		n := 0
		for err == nil {
			var m int
			m, err = c.Read(buf)
			n += m
		}
		require.LessOrEqual(t, n, nonceSize+32, "%s: no verdict", name)
		require.False(t, err.(interface{ Error() string }).Error() == "i/o timeout", name)
		_ = c.Close()
	}
	require.NoError(t, eps[1].Send(0, fabric.Frame{Data: []byte("still here")}))
	eventually(t, func() bool { return cs[0].n.Load() == 1 })
	require.Empty(t, cs[0].lost)
}

// A process that does not know the secret cannot connect, nor be connected to.
func TestWrongSecret(t *testing.T) {
	eps := openAll(t, 2, func(c *Config) {
		if c.Rank == 1 {
			c.Secret = bytes.Repeat([]byte("z"), 32)
		}
		c.DialTimeout = time.Second
	})
	cs := bindAll(eps)
	require.NoError(t, eps[0].Send(1, fabric.Frame{}))
	require.NoError(t, eps[1].Send(0, fabric.Frame{}))
	require.Equal(t, 1, <-cs[0].lost)
	require.Equal(t, 0, <-cs[1].lost)
	require.Zero(t, cs[0].n.Load()+cs[1].n.Load())
}

func TestConfig(t *testing.T) {
	lookup := func(context.Context, int) (string, error) { return "", nil }
	for _, row := range []struct {
		cfg  Config
		want string
	}{
		{Config{Rank: 2, Size: 2, Secret: testSecret, Lookup: lookup}, "fabric: no such rank: rank 2 of 2"},
		{Config{Rank: -1, Size: 2, Secret: testSecret, Lookup: lookup}, "fabric: no such rank: rank -1 of 2"},
		{Config{Secret: testSecret, Lookup: lookup}, "fabric: no such rank: rank 0 of 0"},
		{Config{Rank: -3, Size: -2, Secret: testSecret, Lookup: lookup}, "fabric: no such rank: rank -3 of -2"},
		{Config{Size: 2, Secret: testSecret[:minSecret-1], Lookup: lookup}, "tcp: the secret of the job has 15 bytes; at least 16 are needed"},
		{Config{Size: 2, Secret: testSecret}, "tcp: Config.Lookup is nil"},
		{Config{Size: 1, Secret: testSecret, Listen: "nowhere"}, "tcp: listen tcp: address nowhere: missing port in address"},
	} {
		_, err := New(row.cfg)
		require.EqualError(t, err, row.want)
		require.Equal(t, strings.Contains(row.want, "rank"), errors.Is(err, fabric.ErrRank))
	}
	for _, cfg := range []Config{
		{Size: 2, Secret: testSecret[:minSecret], Lookup: lookup},
		{Rank: 1, Size: 2, Secret: testSecret, Lookup: lookup, DialTimeout: 1, Linger: 2},
		{Size: 1, Secret: testSecret}, // no lookup is needed
	} {
		e, err := New(cfg)
		require.NoError(t, err)
		require.Equal(t, cfg.Rank, e.Rank())
		require.Equal(t, cfg.Size, e.Size())
		if cfg.Linger > 0 {
			require.Equal(t, []time.Duration{1, 2}, []time.Duration{e.cfg.DialTimeout, e.cfg.Linger})
		} else {
			require.Equal(t, []time.Duration{defaultDial, defaultLinger}, []time.Duration{e.cfg.DialTimeout, e.cfg.Linger})
		}
		require.Equal(t, fabric.Caps{Kind: "tcp", EagerLimit: EagerLimit, MaxFrame: MaxFrame}, e.Caps(0))
		require.NoError(t, e.Close())
	}
}

// Nothing that a proved peer may write harms this process.
func FuzzRead(f *testing.F) {
	f.Add(appendHead(nil, kindFrame, &fabric.Frame{}))
	f.Add(append(appendHead(nil, kindFrame, &fabric.Frame{Data: []byte("weft")}), "weft"...))
	f.Add(appendHead(nil, kindClose, &fabric.Frame{}))
	f.Add(bytes.Repeat([]byte{0xff}, headSize))
	f.Fuzz(func(t *testing.T, says []byte) {
		here, there := net.Pipe()
		c := newCollect()
		size := int64(0)
		c.each = func(_ int, f fabric.Frame) { size += int64(len(f.Data)) + headSize }
		p := newPeer(lone(Config{}, c), 1)
		p.conn, p.state = here, open
		go func() {
			_, _ = there.Write(says)
			_ = there.Close()
		}()
		p.read()
		_, _ = there.Read(make([]byte, 1))
		require.LessOrEqual(t, size, int64(len(says)))
	})
}

func BenchmarkPingPong(b *testing.B) {
	eps := openAll(b, 2, nil)
	cs := bindAll(eps)
	back := make(chan struct{}, 1)
	cs[1].each = func(_ int, f fabric.Frame) { _ = eps[1].Send(0, f) }
	cs[0].each = func(int, fabric.Frame) { back <- struct{}{} }
	data := make([]byte, 8)
	for i := range b.N {
		_ = eps[0].Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(i)}, Data: data})
		<-back
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/way")
}
