// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// census takes a census, as a service.
func census(t *testing.T) (c Census) {
	t.Helper()
	Service(func() {
		for range 1000 {
			var ok bool
			if c, ok = Take(); ok {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Fatal("there is no moment at which nothing runs")
	})()
	return c
}

// closed waits until a census is closed, or not.
func closed(t *testing.T, want bool) {
	t.Helper()
	var c Census
	for range 1000 {
		if c = census(t); c.Closed() == want {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("closed: %v, not %v: %+v", !want, want, c)
}

// A census knows all goroutines that wait for others, and each foreign one.
func TestCensus(t *testing.T) {
	closed(t, true) // nothing but the test
	ch, over := make(chan int), make(chan int)
	go func() {
		<-ch // foreign
		k := NewCounter()
		k.Sleep()
		<-ch
		k.Wake()
		timed.Sleep()
		<-ch
		timed.Wake()
		close(over)
	}()
	closed(t, false)
	require.Equal(t, 1, census(t).Foreign())
	ch <- 1
	closed(t, true)
	ch <- 2
	closed(t, false)
	require.Equal(t, 1, census(t).Timed)
	ch <- 3
	<-over
	closed(t, true)
}

// While a goroutine computes there is no census.
func TestCensusOfComputing(t *testing.T) {
	var stop atomic.Bool
	over := make(chan struct{})
	go func() {
		defer close(over)
		for !stop.Load() { // computes
		}
	}()
	for range 10 {
		_, ok := take()
		require.False(t, ok)
	}
	stop.Store(true)
	<-over
}

// A party whose version changes voids the census.
func TestCensusOfMoving(t *testing.T) {
	n := uint64(0)
	leave := Join(&Party{Asleep: func() (int, int, uint64) { n++; return 0, 0, n }})
	_, ok := take()
	require.False(t, ok)
	leave()
	closed(t, true)
}

// Each bystander of the standard library is recognised. If one is not after a new release of Go,
// its functions have new names: see Bystander. (Bystanders of package ants are in package task's
// tests.)
func TestBystanders(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	defer signal.Stop(signals)
	_, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var profile bytes.Buffer
	require.NoError(t, pprof.StartCPUProfile(&profile))
	defer pprof.StopCPUProfile()
	t.Run("a test that waits for one", func(t *testing.T) {
		want := map[string]bool{"waits for signals": true, "waits for a signal, to end a context": true, "waits for tests": true, "writes a CPU profile": true}
		for range 1000 {
			records := make([]runtime.StackRecord, runtime.NumGoroutine()+16)
			n, _ := runtime.GoroutineProfile(records)
			for i := range records[:n] {
				delete(want, Bystander(records[i].Stack()))
			}
			if len(want) == 0 {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Fatalf("not known: %v", want)
	})
	const park, work = "runtime.gopark", "github.com/panjf2000/ants/v2.(*goWorker).run.func1"
	require.NotEmpty(t, bystander([]string{park, "runtime.chanrecv", work}))
	require.Empty(t, bystander([]string{work}), "it runs")
	require.Empty(t, bystander([]string{park, "runtime.selectgo", "github.com/panjf2000/ants/v2.(*poolCommon).ReleaseTimeout", "main.main"}), "a time ends it")
	require.Empty(t, bystander([]string{park, "runtime.chanrecv", "main.task", work}), "it runs a function of the program")
	require.False(t, ours("weft/examples/heat.main"))
	require.True(t, ours("weft/internal/waits.Take"))
}

// The error of End matches both the deadline and the context's cause.
func TestEnd(t *testing.T) {
	mine := errors.New("my patience ends")
	ctx, cancel := context.WithTimeoutCause(context.Background(), 0, mine)
	defer cancel()
	err := End(ctx, func() []string { return []string{"rank 0 waits", "rank 1 waits"} })
	require.ErrorIs(t, err, mine)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualError(t, err, "my patience ends (context deadline exceeded); when it ended:\nrank 0 waits\nrank 1 waits")
	inner, end := context.WithCancelCause(context.Background())
	end(err)
	require.Equal(t, err, End(inner, func() []string { t.Fatal("it is explained"); return nil }))
}

// Parties come and go.
func TestJoin(t *testing.T) {
	one, two := &Party{Describe: func() []string { return []string{"one"} }}, &Party{Describe: func() []string { return []string{"two"} }}
	leaveOne, leaveTwo := Join(one), Join(two)
	require.Equal(t, []string{"one", "two"}, Describe(nil))
	require.Equal(t, []string{"two"}, Describe(one))
	leaveOne()
	require.Equal(t, []string{"two"}, Describe(nil))
	leaveTwo()
	leaveTwo()
	require.Empty(t, Describe(nil))
}
