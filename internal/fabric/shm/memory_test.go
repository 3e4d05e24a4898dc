//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weft/internal/env"
	"weft/internal/fabric"
)

// held returns how many descriptors, and mappings of inboxes, the process has.
func held(t *testing.T) (files, maps int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	data, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return len(list), strings.Count(string(data), "/memfd:weft")
}

// givesBack requires that f leaves no descriptors and mappings behind.
func givesBack(t *testing.T, f func()) {
	t.Helper()
	files, maps := held(t)
	f()
	filesNow, mapsNow := held(t)
	require.Equal(t, files, filesNow, "descriptors")
	require.Equal(t, maps, mapsNow, "mappings")
}

// The parts of an inbox do not overlap, and lie within it.
func TestInboxLayout(t *testing.T) {
	for _, n := range []int{1, 2, 3, 31, 32, 33, 64, MaxSize} {
		controls, rings, end := layout(n)
		require.EqualValues(t, pageSize+sharedSize, controls)
		require.Zero(t, rings%pageSize)
		controlsEnd := controls + n*controlSize
		require.GreaterOrEqual(t, rings, controlsEnd, "%d ranks", n)
		require.Less(t, rings-controlsEnd, pageSize, "%d ranks", n)
		require.Equal(t, rings+n*ringSize, end)
	}
	require.Zero(t, controlSize%lineSize)
	b, f, err := makeInbox(3)
	require.NoError(t, err)
	defer f.Close()
	defer b.unmap()
	controls, rings, end := layout(3)
	require.Len(t, b.mem, int(end))
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(f.Fd()), &st))
	require.EqualValues(t, 0o600, st.Mode&0o777, "others must not open it")
	require.Equal(t, int64(end), st.Size)
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	require.NoError(t, err)
	require.Equal(t, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL, seals)
	require.EqualValues(t, 3, b.head.size)
	require.Equal(t, uint64(0x7766747368_0004), b.head.magic)
	require.NotEqual(t, [16]byte{}, b.head.token)

	base := address(b.mem)
	shared := b.shared()
	require.Equal(t, base+pageSize, address(shared))
	require.Len(t, shared, sharedSize)
	require.Equal(t, sharedSize, cap(shared), "it ends where the controls begin")
	for src := range 3 {
		at := base + uint64(controls) + uint64(src)*uint64(controlSize)
		in := b.incoming(src)
		require.Equal(t, base+uint64(rings)+uint64(src)*ringSize, address(in.data))
		require.Len(t, in.data, ringSize)
		require.Equal(t, ringSize, cap(in.data))
		in.ctl.head.Store(uint64(src) + 1)
		require.EqualValues(t, src+1, binary.NativeEndian.Uint64(b.mem[at-base:]))
	}
}

// openInbox refuses memory that is not an inbox of the run, or was damaged, and leaves nothing
// mapped.
func TestOpenInbox(t *testing.T) {
	b, f, err := makeInbox(3)
	require.NoError(t, err)
	defer f.Close()
	defer b.unmap()
	_, _, end := layout(3)
	self := func(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
	other := func(size int64, seals int) *os.File {
		fd, err := unix.MemfdCreate("weft", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		require.NoError(t, err)
		require.NoError(t, unix.Ftruncate(fd, size))
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		require.NoError(t, err)
		o := os.NewFile(uintptr(fd), "other")
		t.Cleanup(func() { _ = o.Close() })
		return o
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(t, err)
	defer null.Close()
	bad := "is not the inbox of the address"
	for name, row := range map[string]struct {
		file   *os.File
		damage func() // a second call undoes it
		n, src int
		want   string
		is     error
	}{
		"it is one":            {f, nil, 3, 2, "", nil},
		"the first ring":       {f, nil, 3, 0, "", nil},
		"of two ranks":         {f, nil, 2, 0, "the inbox of a run of 2 ranks", nil},
		"of four ranks":        {f, nil, 4, 0, "the inbox of a run of 4 ranks", nil},
		"no memory":            {null, nil, 3, 0, "the inbox of a run of 3 ranks", nil},
		"not sealed":           {other(int64(end), unix.F_SEAL_GROW), nil, 3, 0, "the inbox of a run of 3 ranks", nil},
		"too short":            {other(int64(end)-1, unix.F_SEAL_SHRINK), nil, 3, 0, "the inbox of a run of 3 ranks", nil},
		"too long":             {other(int64(end)+1, unix.F_SEAL_SHRINK), nil, 3, 0, "the inbox of a run of 3 ranks", nil},
		"not to be written":    {other(int64(end), unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE), nil, 3, 0, "mapping", unix.EPERM},
		"of another version":   {f, func() { b.head.magic ^= 1 }, 3, 0, bad, nil},
		"of other ranks":       {f, func() { b.head.size ^= 1 }, 3, 0, bad, nil},
		"of another process":   {f, func() { b.head.token[15] ^= 1 }, 3, 0, bad, nil},
		"of a rank before all": {f, nil, 3, -1 << 40, "mapping", nil},
	} {
		t.Run(name, func(t *testing.T) {
			token := b.head.token
			if row.damage != nil {
				row.damage()
				defer row.damage()
			}
			givesBack(t, func() {
				got, err := openInbox(self(row.file), row.n, row.src, token)
				if row.want == "" && row.is == nil {
					require.NoError(t, err)
					got.ring[5]++
					require.Equal(t, got.ring[5], b.incoming(row.src).data[5], "it is the ring of the rank")
					require.Equal(t, ringSize, len(got.ring))
					got.control(1).waiting.Store(7)
					require.EqualValues(t, 7, b.control(1).waiting.Load())
					require.Equal(t, got.ring, got.outgoing(row.src).data)
					got.unmap()
					return
				}
				require.Nil(t, got)
				require.ErrorContains(t, err, row.want)
				require.ErrorContains(t, err, self(row.file))
				if row.is != nil {
					require.ErrorIs(t, err, row.is)
				}
			})
		})
	}
	givesBack(t, func() {
		_, err := openInbox("/proc/self/fd/999999", 3, 0, b.head.token)
		require.ErrorIs(t, err, unix.ENOENT)
		require.ErrorContains(t, err, "opening /proc/self/fd/999999")
	})
}

// makeInbox returns errors, and then leaves nothing open or mapped.
func TestMakeInboxFails(t *testing.T) {
	for n, want := range map[int]error{-10: unix.EINVAL, 1 << 39: unix.ENOMEM} {
		// A negative size; more than can be mapped.
		givesBack(t, func() {
			b, f, err := makeInbox(n)
			require.ErrorIs(t, err, want)
			require.ErrorContains(t, err, "shm: ")
			require.Nil(t, b)
			require.Nil(t, f)
		})
	}
}

// A process that may open no more files gets an error that names the missing part, and keeps
// nothing.
func TestNoDescriptors(t *testing.T) {
	for more, want := range []string{"shmem: memfd_create", "a pipe", "a pipe", ""} {
		givesBack(t, func() {
			var limit unix.Rlimit
			require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
			list, err := os.ReadDir("/proc/self/fd")
			require.NoError(t, err)
			most := 0
			for _, e := range list {
				var fd int
				_, _ = fmt.Sscan(e.Name(), &fd)
				most = max(most, fd)
			}
			var fill []int
			for { // until all lower descriptors are in use
				fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
				if require.NoError(t, err); fd > most+3 {
					require.NoError(t, unix.Close(fd))
					break
				}
				fill = append(fill, fd)
			}
			slices.Sort(fill)
			for range more {
				require.NoError(t, unix.Close(fill[len(fill)-1]))
				fill = fill[:len(fill)-1]
			}
			low := limit
			low.Cur = uint64(most) + 4
			require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
			e, err := New(Config{Size: 1})
			require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
			for _, fd := range fill {
				require.NoError(t, unix.Close(fd))
			}
			if want == "" {
				require.NoError(t, err)
				require.NoError(t, e.Close())
				return
			}
			require.ErrorIs(t, err, unix.EMFILE)
			require.ErrorContains(t, err, "shm: "+want)
			require.Nil(t, e)
		})
	}
}

// An endpoint closes what it has opened of other ranks, also if connecting failed.
func TestGivesBack(t *testing.T) {
	givesBack(t, func() {
		eps := openAll(t, 3, nil)
		got := make(chan bool, 10)
		for _, e := range eps {
			bind(e, &collector{lost: make(chan error, 3), each: func(int, fabric.Frame) { got <- true }})
		}
		for i, e := range eps {
			require.NoError(t, e.Send((i+1)%3, fabric.Frame{}))
			<-got
		}
		var wg sync.WaitGroup
		for _, e := range eps {
			wg.Go(func() { _ = e.Close() })
		}
		wg.Wait()
	})
	other, err := New(Config{Size: 2})
	require.NoError(t, err)
	defer func() { _ = other.Close() }()
	addr := strings.Fields(other.Addr())
	addr[2] = "999999"
	givesBack(t, func() { // its doorbell does not exist
		e, err := New(Config{Size: 2, Lookup: func(int) (string, error) { return strings.Join(addr, " "), nil }})
		require.NoError(t, err)
		err = e.Send(1, fabric.Frame{})
		require.ErrorIs(t, err, unix.ENOENT)
		require.ErrorContains(t, err, "shm: rank 1: opening /proc/")
		require.NoError(t, e.Close())
	})
}

// present returns how many pages of mem this process has mapped.
func present(t *testing.T, mem []byte) (n int) {
	t.Helper()
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Skip("the kernel does not report which pages are mapped")
	}
	defer f.Close()
	entries := make([]byte, 8*len(mem)/pageSize)
	_, err = f.ReadAt(entries, int64(address(mem)/pageSize*8))
	require.NoError(t, err)
	for i := 0; i < len(entries); i += 8 {
		if binary.NativeEndian.Uint64(entries[i:])>>62 != 0 { // there, or swapped out
			n++
		}
	}
	return n
}

// When two ranks connect, all pages of their ring are mapped at both ends before the first frame;
// with many ranks, only the beginning.
func TestPrepared(t *testing.T) {
	b, f, err := makeInbox(2)
	require.NoError(t, err)
	if unix.Madvise(b.mem, unix.MADV_POPULATE_WRITE) != nil {
		t.Skip("the kernel cannot map pages beforehand")
	}
	b.unmap()
	require.NoError(t, f.Close())
	for n, want := range map[int]int{2: ringSize, allOfRing: ringSize, allOfRing + 1: partOfRing} {
		eps := make([]*Endpoint, 2)
		for r := range eps {
			eps[r], err = New(Config{Rank: r, Size: n, Lookup: func(peer int) (string, error) { return eps[peer].Addr(), nil }})
			require.NoError(t, err)
		}
		require.NoError(t, eps[1].Send(0, fabric.Frame{}))
		out := eps[1].peers.At(0).out.data
		require.Equal(t, want/pageSize, present(t, out), "%d ranks, where it is written", n)
		require.Equal(t, 1, present(t, out[:pageSize]))
		in := eps[0].box.incoming(1).data
		require.Zero(t, present(t, in))
		require.Zero(t, present(t, eps[0].box.incoming(0).data))
		eps[0].handler = mute{}
		eps[0].Poll(false)
		require.Equal(t, want/pageSize, present(t, in), "%d ranks, where it is read", n)
		require.Equal(t, 1, present(t, in[:pageSize]))
		for _, e := range eps {
			require.NoError(t, e.Close())
		}
	}
}

// A configuration is valid or refused; unset fields have their defaults.
func TestConfig(t *testing.T) {
	for _, row := range []struct {
		rank, size int
		want       string
	}{
		{0, 0, "shm: 0 ranks; 1 to 16384 are legal"},
		{0, -1, "shm: -1 ranks; 1 to 16384 are legal"},
		{0, MaxSize + 1, "shm: 16385 ranks; 1 to 16384 are legal"},
		{0, 1, ""},
		{MaxSize - 1, MaxSize, ""},
		{MaxSize, MaxSize, "shm: rank 16384 of 16384"},
		{-1, 2, "shm: rank -1 of 2"},
		{0, 2, ""},
		{1, 2, ""},
		{2, 2, "shm: rank 2 of 2"},
		{3, 2, "shm: rank 3 of 2"},
	} {
		cfg := Config{Rank: row.rank, Size: row.size}
		err := cfg.check()
		if row.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, fabric.ErrRank)
		require.ErrorContains(t, err, row.want)
		e, err := New(cfg)
		require.ErrorContains(t, err, row.want)
		require.Nil(t, e)
	}
	for given, want := range map[int]int{0: env.DefaultSingleCopy, -1: int(^uint(0) >> 1), 1: 1, -5: int(^uint(0) >> 1), 7000: 7000} {
		e, err := New(Config{Size: 1, SingleCopy: given})
		require.NoError(t, err)
		require.Equal(t, want, e.cfg.SingleCopy)
		require.NoError(t, e.Close())
	}
}
