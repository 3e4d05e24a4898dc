// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"hash/fnv"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeDatabase is a database that is built by hand, page by page:
//
//	0, 1  metas: root 3, free list 2, 12 pages, transactions 5 and 6
//	2     free list: 10, 11
//	3     leaf: table "in", whose page is inside, and table "tree", whose root is page 4
//	4     branch: "b" → 5, "m" → 8
//	5     leaf: "b", "c"; it continues in 6
//	7     leaf: "x"; table "tree" does not lead to it
//	8     branch: "m" → 9
//	9     leaf: "m", "n"
type fakeDatabase struct {
	b    []byte
	size int
}

type element struct {
	flags uint32 // of a leaf
	key   string
	value string // of a leaf
	page  uint64 // of a branch
}

const fakePages = 12

func newFakeDatabase(size int) *fakeDatabase {
	d := &fakeDatabase{make([]byte, fakePages*size), size}
	d.meta(0, 5)
	d.meta(1, 6)
	d.free(2, 10, 11)
	d.leaf(3, element{flags: 1, key: "in", value: tableInside(1, boltLeaf)}, element{flags: 1, key: "tree", value: tableAt(4)})
	d.branch(4, element{key: "b", page: 5}, element{key: "m", page: 8})
	d.leaf(5, element{key: "b", value: "1"}, element{key: "c", value: "2"})
	d.u32(5, 12, 1)
	d.leaf(7, element{key: "x"})
	d.branch(8, element{key: "m", page: 9})
	d.leaf(9, element{key: "m"}, element{key: "n"})
	return d
}

func (d *fakeDatabase) u16(page, at int, v uint16) {
	binary.NativeEndian.PutUint16(d.b[page*d.size+at:], v)
}
func (d *fakeDatabase) u32(page, at int, v uint32) {
	binary.NativeEndian.PutUint32(d.b[page*d.size+at:], v)
}
func (d *fakeDatabase) u64(page, at int, v uint64) {
	binary.NativeEndian.PutUint64(d.b[page*d.size+at:], v)
}

// Fields of a meta, from the start of its page.
const (
	metaMagic, metaVersion, metaSize            = boltPage, boltPage + 4, boltPage + 8
	metaRoot, metaFree, metaPages, metaTx, meta = boltPage + 16, boltPage + 32, boltPage + 40, boltPage + 48, boltPage + boltMeta
)

func (d *fakeDatabase) meta(which int, tx uint64) {
	d.u32(which, metaMagic, boltMagic)
	d.u32(which, metaVersion, boltVersion)
	d.u32(which, metaSize, uint32(d.size))
	d.u64(which, metaRoot, 3)
	d.u64(which, metaFree, 2)
	d.u64(which, metaPages, fakePages)
	d.u64(which, metaTx, tx)
	d.seal(which)
}

func (d *fakeDatabase) seal(which int) {
	sum := fnv.New64a()
	sum.Write(d.b[which*d.size+boltPage : which*d.size+meta-8])
	d.u64(which, meta-8, sum.Sum64())
}

// set changes a field of both metas.
func (d *fakeDatabase) set(field int, v uint64) {
	for which := range 2 {
		d.u64(which, field, v)
		d.seal(which)
	}
}

func (d *fakeDatabase) head(page int, kind, count uint16) {
	clear(d.b[page*d.size : (page+1)*d.size])
	d.u64(page, 0, uint64(page))
	d.u16(page, 8, kind)
	d.u16(page, 10, count)
}

func (d *fakeDatabase) free(page int, ids ...uint64) {
	d.head(page, boltFree, uint16(len(ids)))
	for i, id := range ids {
		d.u64(page, boltPage+8*i, id)
	}
}

// leaf and branch put the last key, or its value, at the very end of the page.
func (d *fakeDatabase) leaf(page int, list ...element) {
	d.head(page, boltLeaf, uint16(len(list)))
	end := d.size
	for i := len(list) - 1; i >= 0; i-- {
		e, at := list[i], boltPage+16*i
		end -= len(e.key) + len(e.value)
		copy(d.b[page*d.size+end:], e.key+e.value)
		d.u32(page, at, e.flags)
		d.u32(page, at+4, uint32(end-at))
		d.u32(page, at+8, uint32(len(e.key)))
		d.u32(page, at+12, uint32(len(e.value)))
	}
}

func (d *fakeDatabase) branch(page int, list ...element) {
	d.head(page, boltBranch, uint16(len(list)))
	end := d.size
	for i := len(list) - 1; i >= 0; i-- {
		e, at := list[i], boltPage+16*i
		end -= len(e.key)
		copy(d.b[page*d.size+end:], e.key)
		d.u32(page, at, uint32(end-at))
		d.u32(page, at+4, uint32(len(e.key)))
		d.u64(page, at+8, e.page)
	}
}

func tableAt(root uint64) string {
	return string(binary.NativeEndian.AppendUint64(nil, root)) + string(make([]byte, 8))
}

// tableInside is a table whose page is inside the value. If count is 1, it has one element without
// a key.
func tableInside(count, kind uint16) string {
	ne := binary.NativeEndian
	b := make([]byte, 16+8)
	b = ne.AppendUint16(b, kind)
	b = ne.AppendUint16(b, count)
	b = append(b, 0, 0, 0, 0)
	for range count {
		b = ne.AppendUint32(b, 0)
		b = ne.AppendUint32(b, 16)
		b = append(b, make([]byte, 8)...)
	}
	return string(b)
}

// checkMeta finds each kind of damage, and accepts values at their bounds.
func TestDatabaseDamages(t *testing.T) {
	for name, row := range map[string]struct {
		damage func(d *fakeDatabase)
		metas  int
		wants  string // in the error; empty: none
	}{
		"nothing":    {func(d *fakeDatabase) {}, 2, ""},
		"no magic":   {func(d *fakeDatabase) { d.u32(0, metaMagic, boltMagic+1); d.seal(0) }, 1, ""},
		"version 1":  {func(d *fakeDatabase) { d.u32(0, metaVersion, 1); d.seal(0) }, 1, ""},
		"version 3":  {func(d *fakeDatabase) { d.u32(1, metaVersion, 3); d.seal(1) }, 1, ""},
		"checksum":   {func(d *fakeDatabase) { d.u32(1, metaTx, 7) }, 1, ""},
		"other size": {func(d *fakeDatabase) { d.u32(1, metaSize, 2048); d.seal(1) }, 1, ""},
		"two metas":  {func(d *fakeDatabase) { d.u32(0, metaMagic, 0); d.u32(1, metaMagic, 0) }, 0, "no meta page is whole"},
		// The later transaction counts.
		"newer is bad":       {func(d *fakeDatabase) { d.u64(1, metaRoot, 1); d.seal(1) }, 2, "page 1 of 12"},
		"older is bad":       {func(d *fakeDatabase) { d.u64(0, metaRoot, 1); d.seal(0) }, 2, ""},
		"newer is the first": {func(d *fakeDatabase) { d.u64(0, metaRoot, 1); d.u64(0, metaTx, 7); d.seal(0) }, 2, "page 1 of 12"},
		"two pages":          {func(d *fakeDatabase) { d.set(metaPages, 2) }, 2, "2 pages"},
		"three pages":        {func(d *fakeDatabase) { d.leaf(2); d.set(metaPages, 3); d.set(metaRoot, 2); d.set(metaFree, boltNoFree) }, 2, ""},
		"no free list":       {func(d *fakeDatabase) { d.set(metaFree, boltNoFree) }, 2, ""},
		"no such free list":  {func(d *fakeDatabase) { d.set(metaFree, boltNoFree-1) }, 2, "free list: page 18446744073709551614 of 12"},
		// The list of free pages.
		"free twice":            {func(d *fakeDatabase) { d.free(2, 10, 10) }, 2, "free list: page 10 is no free page"},
		"free meta":             {func(d *fakeDatabase) { d.free(2, 1, 11) }, 2, "page 1 is no free page"},
		"free list is free":     {func(d *fakeDatabase) { d.free(2, 2) }, 2, "page 2 is no free page"},
		"free and used":         {func(d *fakeDatabase) { d.free(2, 9) }, 2, "page 9 is no free page"},
		"continues and is free": {func(d *fakeDatabase) { d.free(2, 6) }, 2, "page 6 is no free page"},
		"free beyond":           {func(d *fakeDatabase) { d.free(2, 10, 12) }, 2, "page 12 is no free page"},
		"nothing free":          {func(d *fakeDatabase) { d.free(2) }, 2, ""},
		"too many free":         {func(d *fakeDatabase) { d.u16(2, 10, 127) }, 2, "free list of 127 pages"},
		"as many as fit":        {func(d *fakeDatabase) { d.u16(2, 10, 126) }, 2, "page 0 is no free page"},
		"a long list":           {func(d *fakeDatabase) { d.free(2, 2, 10, 11); d.u16(2, 10, 0xffff) }, 2, ""},
		"a long list, as fits":  {func(d *fakeDatabase) { d.free(2, 125, 10, 11); d.u16(2, 10, 0xffff) }, 2, "page 0 is no free page"},
		"a list too long":       {func(d *fakeDatabase) { d.free(2, 126, 10, 11); d.u16(2, 10, 0xffff) }, 2, "free list of 126 pages"},
		"nearly long":           {func(d *fakeDatabase) { d.u16(2, 10, 0xfffe) }, 2, "free list of 65534 pages"},
		"list is a leaf":        {func(d *fakeDatabase) { d.u16(2, 8, boltLeaf) }, 2, "free list: page 2 says that it is page 2 of kind 0x2"},
		// Pages.
		"root is the end":      {func(d *fakeDatabase) { d.set(metaRoot, 12) }, 2, "page 12 of 12"},
		"root is a list":       {func(d *fakeDatabase) { d.set(metaRoot, 2) }, 2, "page 2 says that it is page 2 of kind 0x10"},
		"cut":                  {func(d *fakeDatabase) { d.b = d.b[:9*d.size+d.size-1] }, 2, "page 9 of 12"},
		"not cut":              {func(d *fakeDatabase) { d.b = d.b[:10*d.size] }, 2, ""},
		"another page":         {func(d *fakeDatabase) { d.u64(9, 0, 8) }, 2, "page 9 says that it is page 8"},
		"two kinds":            {func(d *fakeDatabase) { d.u16(4, 8, boltBranch|boltLeaf) }, 2, "kind 0x3"},
		"no kind":              {func(d *fakeDatabase) { d.u16(4, 8, 0) }, 2, "kind 0x0"},
		"continues too far":    {func(d *fakeDatabase) { d.u32(9, 12, 3) }, 2, "page 9 continues for 3 pages"},
		"continues to the end": {func(d *fakeDatabase) { d.u32(9, 12, 2); d.free(2) }, 2, ""},
		"continues, and cut":   {func(d *fakeDatabase) { d.u32(9, 12, 2); d.free(2); d.b = d.b[:12*d.size-1] }, 2, "page 9 continues for 2 pages"},
		"continues too long":   {func(d *fakeDatabase) { d.u32(9, 12, 1<<32-1) }, 2, "page 9 continues for 4294967295 pages"},
		"continues into next":  {func(d *fakeDatabase) { d.u32(7, 12, 1); d.branch(8, element{key: "m", page: 7}) }, 2, "page 8 is used twice"},
		"met twice":            {func(d *fakeDatabase) { d.branch(4, element{key: "b", page: 5}, element{key: "m", page: 5}) }, 2, "page 5 is used twice"},
		"in a circle":          {func(d *fakeDatabase) { d.branch(8, element{key: "m", page: 4}) }, 2, "page 4 is used twice"},
		// Branches.
		"no branches":         {func(d *fakeDatabase) { d.u16(8, 10, 0) }, 2, "page 8 has 0 branches"},
		"too many branches":   {func(d *fakeDatabase) { d.u16(8, 10, 64) }, 2, "page 8 has 64 branches"},
		"as many branches":    {func(d *fakeDatabase) { d.u16(8, 10, 63) }, 2, "branch 1 is out of order"},
		"key beyond":          {func(d *fakeDatabase) { d.u32(8, boltPage+4, 2) }, 2, "page 8, branch 0: bytes 1007+2 of 1008"},
		"branch out of order": {func(d *fakeDatabase) { d.branch(4, element{key: "m", page: 8}, element{key: "b", page: 5}) }, 2, "page 4: branch 1 is out of order"},
		"branch not above":    {func(d *fakeDatabase) { d.branch(4, element{key: "b", page: 5}, element{key: "c", page: 8}) }, 2, "page 4: branch 1 is out of order"},
		"branch below":        {func(d *fakeDatabase) { d.branch(8, element{key: "l", page: 9}) }, 2, "page 8: branch 0 is out of order"},
		"branch above":        {func(d *fakeDatabase) { d.branch(4, element{key: "b", page: 5}, element{key: "d", page: 8}) }, 2, ""},
		// Leaves.
		"too many elements": {func(d *fakeDatabase) { d.u16(9, 10, 64) }, 2, "page 9 has 64 elements"},
		"as many elements":  {func(d *fakeDatabase) { d.u16(9, 10, 63) }, 2, "element 2 is out of order"},
		"no elements":       {func(d *fakeDatabase) { d.leaf(9) }, 2, ""},
		"element's key":     {func(d *fakeDatabase) { d.u32(9, boltPage+16+8, 2) }, 2, "page 9, element 1: bytes 991+2 of 992"},
		"element's value":   {func(d *fakeDatabase) { d.u32(9, boltPage+16+12, 1) }, 2, "page 9, element 1: bytes 0+1 of 0"},
		"same key":          {func(d *fakeDatabase) { d.leaf(9, element{key: "m"}, element{key: "m"}) }, 2, "page 9: element 1 is out of order"},
		"descending":        {func(d *fakeDatabase) { d.leaf(9, element{key: "m"}, element{key: "o"}, element{key: "n"}) }, 2, "page 9: element 2 is out of order"},
		"below its branch":  {func(d *fakeDatabase) { d.leaf(9, element{key: "l"}) }, 2, "page 9: element 0 is out of order"},
		"above its branch":  {func(d *fakeDatabase) { d.leaf(9, element{key: "o"}) }, 2, ""},
		"of kind 2":         {func(d *fakeDatabase) { d.leaf(9, element{flags: 2, key: "m"}) }, 2, "element 0 is of kind 0x2"},
		// Tables.
		"short table":          {func(d *fakeDatabase) { d.leaf(3, element{flags: 1, key: "t", value: tableAt(4)[:15]}) }, 2, `table "t": a head of 15 bytes`},
		"no page inside":       {func(d *fakeDatabase) { d.leaf(3, element{flags: 1, key: "t", value: tableAt(0)}) }, 2, `table "t": a page inside that is no leaf`},
		"half a page inside":   {func(d *fakeDatabase) { d.leaf(3, element{flags: 1, key: "t", value: tableInside(0, boltLeaf)[:31]}) }, 2, "that is no leaf"},
		"empty page inside":    {func(d *fakeDatabase) { d.leaf(3, element{flags: 1, key: "t", value: tableInside(0, boltLeaf)}) }, 2, ""},
		"a branch inside":      {func(d *fakeDatabase) { d.leaf(3, element{flags: 1, key: "t", value: tableInside(0, boltBranch)}) }, 2, "that is no leaf"},
		"kind 3 inside":        {func(d *fakeDatabase) { d.leaf(3, element{flags: 1, key: "t", value: tableInside(0, 3)}) }, 2, "that is no leaf"},
		"table's root":         {func(d *fakeDatabase) { d.leaf(3, element{flags: 1, key: "t", value: tableAt(1)}) }, 2, `table "t": page 1 of 12`},
		"too much inside":      {func(d *fakeDatabase) { d.leaf(3, element{flags: 1, key: "t", value: tableInside(2, boltLeaf)[:48]}) }, 2, "page 0 has 2 elements"},
		"as much inside":       {func(d *fakeDatabase) { d.leaf(3, element{flags: 1, key: "t", value: tableInside(1, boltLeaf)}) }, 2, ""},
		"value is not checked": {func(d *fakeDatabase) { d.leaf(3, element{key: "t", value: tableAt(1)}) }, 2, ""},
	} {
		d := newFakeDatabase(1024)
		row.damage(d)
		metas, err := checkMeta(d.b)
		if row.wants == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, ErrCorrupt, name)
			require.ErrorContains(t, err, row.wants, name)
		}
		require.Equal(t, row.metas, metas, name)
	}
	for size, metas := range map[int]int{1 << 9: 0, 1 << 10: 2, 1 << 12: 2, 1 << 16: 2, 1 << 17: 0} {
		got, err := checkMeta(newFakeDatabase(size).b)
		require.Equal(t, metas, got, "pages of %d bytes: %v", size, err)
	}
	b := newFakeDatabase(1024).b
	for n, metas := range map[int]int{0: 0, boltPage + boltMeta - 1: 0, boltPage + boltMeta: 1, 1024 + boltPage + boltMeta - 1: 1, 1024 + boltPage + boltMeta: 2} {
		got, err := checkMeta(b[:n:n])
		require.Equal(t, metas, got, "cut to %d", n)
		require.Error(t, err)
	}
}
