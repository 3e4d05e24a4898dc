// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"fmt"
	"hash/fnv"
)

// The database trusts its pages: a damaged page may lead it into a cycle or out of its mapping. So
// Open checks the pages before the database reads them. This is the layout of bbolt's files,
// version 2, in the machine's byte order:
//
//	page      id u64, flags u16, count u16, overflow u32; then its elements
//	meta      magic u32, version u32, page size u32, flags u32, root page u64, sequence u64,
//	          free list's page u64, number of pages u64, transaction u64, FNV-1a of all that u64
//	branch    per element: position u32 (of the key, from the element), key size u32, page u64
//	leaf      per element: flags u32 (1: a bucket), position u32, key size u32, value size u32
//	free list page numbers u64
//	bucket    as a value: root page u64, sequence u64; then, if the root is 0, its page
//
// Pages 0 and 1 are metas. A transaction overwrites the older of the two. So if one is damaged, the
// other has the state of the last transaction or of the one before it.
const (
	boltMagic, boltVersion = 0xED0CDAED, 2
	boltPage, boltMeta     = 16, 64 // sizes of the head of a page and of a meta
	boltBranch, boltLeaf   = 0x01, 0x02
	boltFree               = 0x10
	boltNoFree             = 1<<64 - 1
)

// checkMeta checks the bytes of a database. metas is how many of its two metas are intact. If one
// is, err says what is wrong with the pages that the newer one leads to.
func checkMeta(b []byte) (metas int, err error) {
	var best *boltFile
	for i := range 2 {
		if m := findMeta(b, i); m != nil {
			metas++
			if best == nil || m.txid > best.txid {
				best = m
			}
		}
	}
	if best == nil {
		return 0, fmt.Errorf("%w: no meta page is whole", ErrCorrupt)
	}
	return metas, best.check()
}

// boltFile is a database as one of its metas describes it.
type boltFile struct {
	b                             []byte
	size, root, free, pages, txid uint64
	seen                          map[uint64]bool
}

// findMeta returns meta 0 or 1 if it is intact. The position of meta 1 depends on the page size.
func findMeta(b []byte, which int) *boltFile {
	for size := 1 << 10; size <= 1<<16; size <<= 1 {
		at := which*size + boltPage
		if len(b) < at+boltMeta {
			return nil
		}
		m := b[at : at+boltMeta]
		sum := fnv.New64a()
		sum.Write(m[:boltMeta-8])
		f := &boltFile{b: b, size: uint64(ne.Uint32(m[8:])), root: ne.Uint64(m[16:]), free: ne.Uint64(m[32:]), pages: ne.Uint64(m[40:]),
			txid: ne.Uint64(m[48:]), seen: make(map[uint64]bool)}
		if ne.Uint32(m) == boltMagic && ne.Uint32(m[4:]) == boltVersion && ne.Uint64(m[56:]) == sum.Sum64() && f.size == uint64(size) {
			return f
		}
	}
	return nil
}

// check walks all pages that the meta leads to.
func (f *boltFile) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: database: %s", ErrCorrupt, fmt.Sprintf(format, args...))
	}
	if f.pages < 3 {
		return bad("%d pages", f.pages)
	}
	if err := f.tree(f.root, nil, new([]byte)); err != nil {
		return bad("%v", err)
	}
	if f.free == boltNoFree {
		return nil
	}
	_, list, err := f.page(f.free, boltFree)
	if err != nil {
		return bad("free list: %v", err)
	}
	n := uint64(ne.Uint16(f.b[f.free*f.size+10:]))
	if n == 0xffff { // the number is the first element
		n, list = ne.Uint64(list), list[8:]
	}
	if n > uint64(len(list)/8) {
		return bad("free list of %d pages", n)
	}
	for last := uint64(1); n > 0; n-- {
		id := ne.Uint64(list)
		if id <= last || id >= f.pages || f.seen[id] {
			return bad("free list: page %d is no free page", id)
		}
		last, list = id, list[8:]
	}
	return nil
}

// page returns the kind of a page, which must be one of kinds, and what follows its head. A second
// visit of a page is an error.
func (f *boltFile) page(id uint64, kinds uint16) (kind uint16, body []byte, err error) {
	if id < 2 || id >= f.pages || id >= uint64(len(f.b))/f.size {
		return 0, nil, fmt.Errorf("page %d of %d", id, f.pages)
	}
	p := f.b[id*f.size:]
	kind, over := ne.Uint16(p[8:]), uint64(ne.Uint32(p[12:]))
	if self := ne.Uint64(p); self != id || kind&kinds == 0 || kind&(kind-1) != 0 {
		return 0, nil, fmt.Errorf("page %d says that it is page %d of kind %#x", id, self, kind)
	}
	if over >= f.pages-id || (over+1)*f.size > uint64(len(p)) {
		return 0, nil, fmt.Errorf("page %d continues for %d pages", id, over)
	}
	for i := id; i <= id+over; i++ {
		if f.seen[i] {
			return 0, nil, fmt.Errorf("page %d is used twice", i)
		}
		f.seen[i] = true
	}
	return kind, p[boltPage : (over+1)*f.size], nil
}

// tree walks a tree of pages in the order of their keys, none of which is below low. last is the
// greatest key so far.
func (f *boltFile) tree(id uint64, low []byte, last *[]byte) error {
	kind, body, err := f.page(id, boltBranch|boltLeaf)
	if err != nil {
		return err
	}
	count := int(ne.Uint16(f.b[id*f.size+10:]))
	if kind == boltLeaf {
		return f.leaf(id, count, body, low, last)
	}
	if count == 0 || count*boltPage > len(body) {
		return fmt.Errorf("page %d has %d branches", id, count)
	}
	for i := range count {
		e := body[i*boltPage:]
		key, err := cut(e, ne.Uint32(e), ne.Uint32(e[4:]))
		if err != nil {
			return fmt.Errorf("page %d, branch %d: %w", id, i, err)
		}
		if bytes.Compare(key, low) < 0 || *last != nil && bytes.Compare(key, *last) <= 0 {
			return fmt.Errorf("page %d: branch %d is out of order", id, i)
		}
		if err := f.tree(ne.Uint64(e[8:]), key, last); err != nil {
			return err
		}
	}
	return nil
}

// leaf checks the elements of a leaf page, and the buckets among them.
func (f *boltFile) leaf(id uint64, count int, body, low []byte, last *[]byte) error {
	if count*boltPage > len(body) {
		return fmt.Errorf("page %d has %d elements", id, count)
	}
	for i := range count {
		e := body[i*boltPage:]
		pos, ksize, vsize := ne.Uint32(e[4:]), ne.Uint32(e[8:]), ne.Uint32(e[12:])
		key, err := cut(e, pos, ksize)
		if err != nil {
			return fmt.Errorf("page %d, element %d: %w", id, i, err)
		}
		value, err := cut(e[int(pos)+int(ksize):], 0, vsize)
		if err != nil {
			return fmt.Errorf("page %d, element %d: %w", id, i, err)
		}
		if bytes.Compare(key, low) < 0 || *last != nil && bytes.Compare(key, *last) <= 0 {
			return fmt.Errorf("page %d: element %d is out of order", id, i)
		}
		*last = key
		switch flags := ne.Uint32(e); flags {
		case 0:
		case 1:
			if err := f.bucket(value); err != nil {
				return fmt.Errorf("table %q: %w", key, err)
			}
		default:
			return fmt.Errorf("page %d: element %d is of kind %#x", id, i, flags)
		}
	}
	return nil
}

// bucket checks the tree of a table, which has its own pages or one page inside the value.
func (f *boltFile) bucket(value []byte) error {
	if len(value) < 16 {
		return fmt.Errorf("a head of %d bytes", len(value))
	}
	if root := ne.Uint64(value); root != 0 {
		return f.tree(root, nil, new([]byte))
	}
	inline := value[16:]
	if len(inline) < boltPage || ne.Uint16(inline[8:]) != boltLeaf {
		return fmt.Errorf("a page inside that is no leaf")
	}
	return f.leaf(0, int(ne.Uint16(inline[10:])), inline[boltPage:], nil, new([]byte))
}

// cut returns b[pos:pos+n], or an error if b is shorter.
func cut(b []byte, pos, n uint32) ([]byte, error) {
	if uint64(pos)+uint64(n) > uint64(len(b)) {
		return nil, fmt.Errorf("bytes %d+%d of %d", pos, n, len(b))
	}
	return b[pos:][:n], nil
}
