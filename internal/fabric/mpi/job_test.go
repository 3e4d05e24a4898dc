//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
	"weft/internal/progress"
)

// handler handles the frames of a rank of a job.
type handler struct {
	deliver func(src int, f fabric.Frame)
	lost    func(src int, err error)
}

func (h *handler) Deliver(f *fabric.Frame) bool {
	h.deliver(int(f.Origin), *f)
	return false
}

// bind binds an endpoint, and an engine that polls it.
func bind(e fabric.Endpoint, h fabric.Handler) *progress.Engine {
	g := progress.New(e.Sources(), progress.Config{Ranks: 1})
	e.Bind(h, g)
	return g
}

func (h *handler) Lost(src int, err error) {
	if h.lost != nil {
		h.lost(src, err)
		return
	}
	panic(fmt.Sprintf("rank %d is lost: %v", src, err))
}

// must ends a rank of a job if err is not nil.
func must(err error) {
	if err != nil {
		println("rank", process.Rank, err.Error())
		os.Exit(5)
	}
}

// storm has all ranks send frames and transfers to all others, from several goroutines. There are
// so few tags that transfers need the same one. Each transfer begins with frames that tell its key,
// as in package comm. Two goroutines of each rank poll.
func storm(p *Process) int {
	seed, _ := strconv.Atoi(os.Getenv("WEFT_TEST_SEED"))
	e, err := p.open(world(p), 256)
	must(err)
	const senders, each = 3, 60
	total := int64((p.Size - 1) * senders * each)
	var here, ended, frames atomic.Int64
	var keys atomic.Uint64
	payload := func(src, dst int, id uint64) []byte {
		r := rand.New(rand.NewPCG(uint64(src)<<32|uint64(dst), id))
		b := make([]byte, 1+r.IntN(1<<uint(4+r.IntN(16))))
		for i := range b {
			b[i] = byte(uint64(i)*31 + id + uint64(src))
		}
		return b
	}
	const rts, cts = 1, 2 // kinds of frames: request to send, clear to send
	var order sync.Map    // by source and goroutine: the last id
	h := &handler{}
	h.deliver = func(src int, f fabric.Frame) {
		id := f.Head[1]
		switch f.Head[0] {
		case rts:
			frames.Add(1)
			last, _ := order.Swap([2]uint64{uint64(src), id >> 32}, id)
			if last != nil && last.(uint64) >= id {
				must(fmt.Errorf("frame %x of rank %d arrived after %x", id, src, last))
			}
			want := payload(src, p.Rank, id)
			if !bytes.Equal(f.Data, want[:min(len(want), 100)]) {
				must(errors.New("a frame has other bytes"))
			}
			dst := make([]byte, len(want))
			key := keys.Add(1) * 32 // eight tags for all transfers
			e.Expect(src, key, dst, func(err error) {
				must(err)
				if !bytes.Equal(dst, want) {
					must(fmt.Errorf("transfer %d from rank %d has other bytes", key, src))
				}
				here.Add(1)
			})
			must(e.Send(src, fabric.Frame{Head: [fabric.HeadWords]uint64{cts, id, key}}))
		case cts:
			data := payload(p.Rank, src, id)
			e.Push(src, f.Head[2], data, func(err error) {
				must(err)
				ended.Add(1)
			})
		}
	}
	polls := bind(e, h)
	var wg sync.WaitGroup
	for g := range senders {
		wg.Go(func() {
			for i := range each {
				for dst := range p.Size {
					if dst == p.Rank {
						continue
					}
					id := uint64(g)<<32 | uint64(seed+i+1)
					data := payload(p.Rank, dst, id)
					must(e.Send(dst, fabric.Frame{Head: [fabric.HeadWords]uint64{rts, id}, Data: data[:min(len(data), 100)]}))
				}
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			woken := make(chan struct{}, 1)
			for here.Load() < total || ended.Load() < total {
				polls.PollChannel(woken, polls.Enter())
				time.Sleep(50 * time.Microsecond)
			}
		})
	}
	wg.Wait()
	if frames.Load() != total || len(e.tags.busy) != 0 {
		must(fmt.Errorf("%d frames of %d; %d tags in use", frames.Load(), total, len(e.tags.busy)))
	}
	must(e.Close())
	fmt.Println("storm over", p.Rank)
	return 0
}

// faults checks that Go still handles faults after MPI_Init.
func faults(p *Process) int {
	defer func() {
		if recover() == nil {
			os.Exit(6)
		}
		fmt.Println("fault recovered", p.Rank)
	}()
	var nothing *[8]int
	nothing[p.Rank&7]++
	return 7
}

// idle prints the processor time of a rank that waits for a frame for a second.
func idle(p *Process) int {
	e, err := p.open(world(p), 1000)
	must(err)
	got := make(chan struct{}, 1)
	bind(e, &handler{deliver: func(int, fabric.Frame) { got <- struct{}{} }})
	time.Sleep(200 * time.Millisecond)
	before := e.s.sleeps.Load()
	if p.Rank == 0 {
		time.Sleep(time.Second)
		must(e.Send(1, fabric.Frame{}))
	} else {
		began := processorTime()
		<-got
		fmt.Printf("idle: %v of processor time, %d sleeps of the watch\n", processorTime()-began, e.s.sleeps.Load()-before)
	}
	must(e.Close())
	return 0
}

// bad has rank 0 send a message with an unknown tag.
func bad(p *Process) int {
	e, err := p.open(world(p), 1000)
	must(err)
	lost := make(chan error, 1)
	bind(e, &handler{deliver: func(int, fabric.Frame) {}, lost: func(_ int, err error) { lost <- err }})
	if p.Rank == 0 {
		e.lock()
		must(e.sendNow(1, 99, new(fabric.Frame)))
		e.unlock()
		must(e.Send(1, fabric.Frame{}))
	} else {
		fmt.Println("lost:", <-lost)
		if err := e.Send(0, fabric.Frame{}); !errors.Is(err, ErrFrame) {
			must(fmt.Errorf("a lost rank takes frames: %w", err))
		}
		ended := make(chan error, 1)
		e.Expect(0, 1, make([]byte, 1), func(err error) { ended <- err })
		if !errors.Is(<-ended, ErrFrame) {
			must(errors.New("a lost rank sends transfers"))
		}
	}
	must(e.Close())
	return 0
}

// drop has rank 0 drop rank 1, with everything that is under way. Rank 2 is not affected.
func drop(p *Process) int {
	e, err := p.open(world(p), 1000)
	must(err)
	got := make(chan int, 4)
	lost := make(chan int, 4)
	bind(e, &handler{deliver: func(src int, _ fabric.Frame) { got <- src }, lost: func(src int, _ error) { lost <- src }})
	switch p.Rank {
	case 0:
		ended := make(chan error, 2)
		e.Expect(1, 1, make([]byte, 10), func(err error) { ended <- err })
		e.Drop(1, errors.New("the reason"))
		e.Push(1, 1, make([]byte, 1<<20), func(err error) { ended <- err })
		e.Drop(9, nil)
		for range 2 {
			if err := <-ended; err == nil || !strings.Contains(err.Error(), "the reason") {
				must(fmt.Errorf("a transfer with a rank that is dropped ends with %w", err))
			}
		}
		for <-lost != 1 {
		}
		for e.Send(1, fabric.Frame{}) == nil { // Drop is queued while the watch has the lock
			runtime.Gosched()
		}
		must(e.Send(2, fabric.Frame{}))
	case 1:
		<-got // so that rank 1 does not close before
	case 2:
		if src := <-got; src != 0 {
			must(fmt.Errorf("a frame of rank %d", src))
		}
		must(e.Send(1, fabric.Frame{}))
		fmt.Println("the others continue")
	}
	must(e.Close())
	return 0
}

// lists calls Open with lists of ranks that are refused, and then with each rank by itself.
func lists(p *Process) int {
	for _, l := range [][]int{{}, {p.Rank, p.Rank}, {-1, p.Rank}, {p.Size, p.Rank}, {(p.Rank + 1) % p.Size}} {
		if _, err := p.Open(l); !errors.Is(err, fabric.ErrRank) {
			must(fmt.Errorf("the list %v: %w", l, err))
		}
	}
	e, err := p.open([]int{p.Rank}, 1000) // each rank by itself
	must(err)
	if _, err := p.Open([]int{p.Rank}); err == nil {
		must(errors.New("two endpoints at a time"))
	}
	bind(e, &handler{})
	dst, done := make([]byte, 3), make(chan error, 2)
	e.Expect(0, 5, dst, func(err error) { done <- err })
	e.Push(0, 5, []byte("abc"), func(err error) { done <- err })
	must(<-done)
	must(<-done)
	if string(dst) != "abc" {
		must(errors.New("a transfer to itself"))
	}
	must(e.Close())
	shares, err := p.Exchange([]byte(strconv.Itoa(p.Rank)))
	must(err)
	for r, s := range shares {
		if string(s) != strconv.Itoa(r) {
			must(fmt.Errorf("the share of rank %d is %q", r, s))
		}
	}
	fmt.Println("lists over")
	return 0
}

func init() {
	roles["storm"], roles["faults"], roles["idle"], roles["bad"], roles["lists"], roles["drop"] = storm, faults, idle, bad, lists, drop
}

func TestStorm(t *testing.T) {
	for _, n := range []int{2, 3} {
		out := succeed(t, n, "storm", "WEFT_TEST_SEED=0")
		require.Equal(t, n, bytes.Count([]byte(out), []byte("storm over")), "%s", out)
	}
}

func TestFaultsAreGos(t *testing.T) {
	require.Contains(t, succeed(t, 2, "faults"), "fault recovered 1")
}

func TestIdle(t *testing.T) { t.Log(succeed(t, 2, "idle")) }

func TestBadMessage(t *testing.T) {
	// a rank that has lost a peer ends without MPI_Finalize, so the launcher may report an error
	out, _ := job(t, 2, "bad", nil)
	require.Contains(t, out, "lost: mpi: receive, rank 0: bad message: its tag is 99")
}

func TestDrop(t *testing.T) {
	out, _ := job(t, 3, "drop", nil) // as above
	require.Contains(t, out, "the others continue")
	require.NotContains(t, out, "dropped", "%s", out)
}

func TestLists(t *testing.T) { require.Contains(t, succeed(t, 2, "lists"), "lists over") }

// Version returns the name and version of the library.
func TestVersion(t *testing.T) {
	require.Regexp(t, `^(Open MPI v|MPICH )\d+\.\d+`, Version())
	require.Equal(t, "Open MPI v4.1.4", shorten("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4\x00"))
	require.Equal(t, "MPICH 4.0.2", shorten("MPICH Version:      4.0.2\nMPICH Release date: x\n"))
}
