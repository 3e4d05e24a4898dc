// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// fill enters the objects of an array, each with a child's access, in a new table.
func fill(mem []byte, n, stride int) (d *domain, keys []uintptr, lasts []access) {
	d, lasts = new(domain), make([]access, n)
	d.alloc(domainMin)
	var f Flow
	for i := range n {
		keys = append(keys, uintptr(unsafe.Pointer(&mem[i*stride])))
		d.slot(keys[i], &f).last = &lasts[i]
	}
	return d, keys, lasts
}

// displaced counts the keys that are not at their homes.
func (d *domain) displaced() (n int) {
	for i := range d.tab {
		if e := &d.tab[i]; e.key != 0 && int(home(e.key, d.mul, d.shift)) != i {
			n++
		}
	}
	return n
}

// The objects of an array are found at once: hardly two have the same home.
func TestArraysAreAtHome(t *testing.T) {
	const most = 4356 // a grid of 64 x 64 blocks with a frame
	mem := make([]byte, most*4096)
	for shift := range 13 {
		for _, n := range []int{12, 100, 700, 1000, 3000, most} {
			t.Run(fmt.Sprintf("%d objects %d bytes apart", n, 1<<shift), func(t *testing.T) {
				d, keys, lasts := fill(mem, n, 1<<shift)
				require.Equal(t, n, d.n)
				for i, key := range keys {
					require.Same(t, &lasts[i], d.probe(key).last)
				}
				require.LessOrEqual(t, d.displaced(), n/16+1)
			})
		}
	}
}

// Other keys fare no worse than random keys, of which a third is displaced in a full table.
func TestRecordsAreNearHome(t *testing.T) {
	const n = 1500
	mem := make([]byte, n*512)
	for _, stride := range []int{24, 40, 48, 72, 80, 96, 112, 144, 160, 208, 320, 384} {
		d, _, _ := fill(mem, n, stride)
		require.LessOrEqual(t, d.displaced(), n/2, "%d bytes apart", stride)
	}
}

// Different keys have different products with the multiplier, of which home is the highest bits,
// since the multiplier is odd.
func TestMultiplierTellsKeysApart(t *testing.T) {
	require.Equal(t, uint64(golden), multiplier(0), "of one key, nothing is known")
	for g := range 64 {
		m := multiplier(1 << g)
		require.EqualValues(t, 1, m&1)
		require.LessOrEqual(t, bits.Len64((m<<g)^(uint64(golden)>>g<<g)), g+1, "2^g times the multiplier is golden but for the last bits")
	}
}

// The parent's accesses stay with their objects when the table grows.
func TestParentsAccessesMoveAlong(t *testing.T) {
	const n = 2000
	mem := make([]byte, n*16)
	d, lasts, ups := new(domain), make([]access, n), make([]access, n)
	d.alloc(domainMin)
	var f Flow
	for i := range n {
		e := d.slot(uintptr(unsafe.Pointer(&mem[i*16])), &f)
		e.last = &lasts[i]
		if i%3 == 0 && i < n/2 {
			d.setUp(e, upper{a: &ups[i]})
		}
	}
	for i := range n {
		var want *access
		if i%3 == 0 && i < n/2 {
			want = &ups[i]
		}
		require.Same(t, want, d.up(d.probe(uintptr(unsafe.Pointer(&mem[i*16])))), "object %d", i)
	}
	d.clear()
	require.Nil(t, d.ups, "and go with it")
}

// passing is a domain in which only the objects named last are in use.
type passing struct {
	d    *domain
	f    Flow
	node Node
	used []*access // of the objects in use, in a ring
	next int
}

func newPassing(inUse int) *passing {
	w := &passing{d: new(domain), used: make([]*access, inUse)}
	w.d.alloc(domainMin)
	w.node.refs.Init(1 << 30)
	return w
}

// access names key and reports whether key is new in the table.
func (w *passing) access(key object) (isNew bool) {
	e := w.d.slot(addr(key), &w.f)
	isNew = e.last == nil
	if !isNew && !finished(e.last.state.Load()) {
		return false
	}
	g := &accessBlock{owner: &w.node}
	e.last = &g.accs[0]
	e.last.pos = inExtraBlock
	e.last.setRef(key)
	w.next = (w.next + 1) % len(w.used)
	if old := w.used[w.next]; old != nil {
		old.state.Init(hasW | through)
	}
	w.used[w.next] = e.last
	return isNew
}

// Objects that come back again and again stay in the table, though few are in use when it is full.
func TestObjectsThatComeBackStay(t *testing.T) {
	for _, n := range []int{7, 50, 700, 4356} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			mem := make([]byte, n*64)
			w := newPassing((n + 2) / 3)
			came := 0
			for range 20 {
				came = 0
				for i := range n {
					if w.access(object(unsafe.Pointer(&mem[i*64]))) {
						came++
					}
				}
			}
			require.Zero(t, came, "all are in the table in the end")
			require.Less(t, len(w.d.tab), 8*n)
		})
	}
}

// Ever new objects do not make the table grow, also after others that came back.
func TestNewObjectsGo(t *testing.T) {
	const known, fresh = 700, 100_000
	mem := make([]byte, (known+fresh)*64)
	w := newPassing(known / 3)
	for range 10 {
		for i := range known {
			w.access(object(unsafe.Pointer(&mem[i*64])))
		}
	}
	before := len(w.d.tab)
	for i := range fresh {
		require.True(t, w.access(object(unsafe.Pointer(&mem[(known+i)*64]))))
		require.LessOrEqual(t, len(w.d.tab), 2*before)
	}
	w.d.clear()
	require.Zero(t, w.d.added+w.d.back)
}

// If an allocator reuses the memory of dropped objects, new objects look like old ones that come
// back. The table then keeps more entries, but at most a multiple of the objects in use.
func TestAddressesThatAreUsedAgain(t *testing.T) {
	for _, inUse := range []int{1, 100} {
		for _, oldest := range []bool{false, true} {
			mem := make([]byte, 1<<20)
			w := newPassing(inUse)
			fresh, most := 0, 0
			var live, free []int
			for range 100_000 {
				if len(free) == 0 { // collect
					live = slices.DeleteFunc(live, func(i int) bool {
						gone := w.d.probe(uintptr(unsafe.Pointer(&mem[i*8]))).key == 0
						if gone {
							free = append(free, i)
						}
						return gone
					})
				}
				var i int
				switch k := len(free); {
				case k == 0:
					i, fresh = fresh, fresh+1
				case oldest:
					i, free = free[0], free[1:]
				default:
					i, free = free[k-1], free[:k-1]
				}
				require.True(t, w.access(object(unsafe.Pointer(&mem[i*8]))))
				live = append(live, i)
				most = max(most, len(w.d.tab))
			}
			require.LessOrEqual(t, most, max(32, keepMost*inUse))
			require.LessOrEqual(t, fresh, max(64, 2*keepMost*inUse), "objects that are kept alive")
		}
	}
}

// Keys are addresses that Go's allocator chose: a few keys of one array may all collide, those of
// many arrays do not.
func TestRecentKeysAreToldApart(t *testing.T) {
	for _, n := range []int{5, 64, 1000, recentMax} {
		for _, stride := range []int{8, 64, 4096} {
			wrong, arrays := 0, max(1, 1000/n)
			mem := make([]byte, arrays*2*n*stride)
			for k := range arrays {
				key := func(i int) uintptr { return uintptr(unsafe.Pointer(&mem[(k*2*n+i)*stride])) }
				var m recentKeys
				require.False(t, m.has(key(0)))
				for i := range n {
					m.put(key(i))
				}
				for i := n / 2; i < n; i++ { // the last ones
					require.True(t, m.has(key(i)))
				}
				for i := range n {
					if m.has(key(n + i)) {
						wrong++
					}
				}
				m.clear()
				require.False(t, m.has(key(0)))
			}
			require.LessOrEqual(t, wrong, arrays*n/6, "of %d keys %d bytes apart", n, stride)
		}
	}
}

// However many keys are put, the last ones are known, and the memory is bounded.
func TestRecentKeysForget(t *testing.T) {
	mem := make([]byte, 10*recentMax)
	var m recentKeys
	for i := range mem {
		m.put(uintptr(unsafe.Pointer(&mem[i])))
		require.True(t, m.has(uintptr(unsafe.Pointer(&mem[max(0, i-recentMin)]))))
	}
	wrong := 0
	for i := range recentMax {
		if m.has(uintptr(unsafe.Pointer(&mem[i]))) {
			wrong++
		}
	}
	require.LessOrEqual(t, wrong, recentMax/6, "the first are forgotten")
	require.Equal(t, recentMax*recentBits/64, len(m.now))
	require.Equal(t, recentMax*recentBits/64, len(m.before))
}

// Large tables are used again, empty, by one domain at a time.
func TestTableCache(t *testing.T) {
	for _, size := range []int{domainMax, 2 * domainMax << cachedSizes} {
		require.Nil(t, cacheSlotOf(size), "%d entries", size)
		cacheTable(make([]entry, size))
		require.Nil(t, takeCached(size))
	}
	var object int
	for k := range cachedSizes {
		size := 2 * domainMax << k
		takeCached(size) // of an earlier test
		tab := make([]entry, size)
		for i := range tab {
			tab[i] = entry{uintptr(unsafe.Pointer(&object)), new(access)}
		}
		cacheTable(tab)
		cacheTable(make([]entry, size)) // one of a size is enough
		got := takeCached(size)
		require.Same(t, &tab[0], &got[0])
		require.Equal(t, make([]entry, size), got)
		require.Nil(t, takeCached(size))
	}
	const n = 5000
	mem := make([]byte, n*64)
	for range 3 {
		d, _, _ := fill(mem, n, 64)
		require.Equal(t, n, d.n)
		d.clear()
		require.Nil(t, d.tab)
		require.Nil(t, d.probeAfterAlloc(uintptr(unsafe.Pointer(&mem[0]))), "nothing is left of the domain before")
		d.clear()
	}
	var out sync.WaitGroup
	for range 8 {
		out.Go(func() {
			mem := make([]byte, n*64)
			for range 50 {
				d, keys, lasts := fill(mem, n, 64)
				for i := range keys {
					if d.probe(keys[i]).last != &lasts[i] {
						t.Error("a table with another owner")
						return
					}
				}
				d.clear()
			}
		})
	}
	out.Wait()
}

func (d *domain) probeAfterAlloc(key uintptr) *access {
	d.alloc(8 * domainMax)
	return d.probe(key).last
}
