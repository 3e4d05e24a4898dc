// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

// An access stores the size in bytes of the largest variable that its chain of objects names, among
// those not known to be over when the next was linked. The size is used only when a range is named
// in the domain: it then says which bytes the chain covers. It fits beside access.released and pos,
// so it costs no memory. Sizes of bigSize bytes and more are in domain.big.
//
// released is a separate byte, since the task's body writes it while others read the size.
const bigSize = 1<<24 - 1

// Sizes have twenty bits. Those of half a MiB and more are in units of 32 bytes, and must be a
// multiple of the unit, as arrays mostly are.
const (
	sizeUnit = 32
	inUnits  = 1 << (16 + 8 - posBits - 1)
)

// fits reports whether an access can store n, the size of its variable, by itself.
func fits(n uint32) bool { return n < inUnits || n%sizeUnit == 0 && n < bigSize-sizeUnit }

// coded encodes n, which fits or is bigSize, in twenty bits.
func coded(n uint32) uint32 {
	if n < inUnits {
		return n
	}
	return inUnits | n/sizeUnit
}

// small returns the size, or bigSize if the size is in domain.big.
func (a *access) small() uint32 {
	n := uint32(a.pos)>>posBits<<16 | uint32(a.sizeLo)
	switch {
	case n < inUnits:
		return n
	case n == coded(bigSize):
		return bigSize
	}
	return n % inUnits * sizeUnit
}

func (a *access) setSmall(n uint32) {
	n = coded(n)
	a.pos = a.pos&(1<<posBits-1) | uint8(n>>16)<<posBits
	a.sizeLo = uint16(n)
}

// put sets the position of a, access i of its node, and its size.
func (a *access) put(i int32, size uint32) {
	size = coded(size)
	a.pos, a.sizeLo = posOf(i)|uint8(size>>16)<<posBits, uint16(size)
}

// cover adds x's variable to those that a names. Precondition: a's domain remembers x if x is
// large.
func (a *access) cover(x Access) {
	n := uint32(min(x.size(), bigSize))
	if !fits(n) {
		n = bigSize
	}
	if n > a.small() {
		a.setSmall(n)
	}
}

// inherit adds to a the variables of prev, the access before it. In most chains they are all of one
// size.
func (a *access) inherit(prev *access) {
	if prev.sizeLo != a.sizeLo || (prev.pos^a.pos)>>posBits != 0 {
		a.setSmall(max(prev.small(), a.small()))
	}
}

// remember notes the size of a large object.
func (d *domain) remember(x Access) {
	if d.big == nil {
		d.big = map[uintptr]uintptr{}
	}
	key := addr(x.object())
	d.big[key] = max(d.big[key], x.size())
	if n := len(d.big); n > 64 && n > 2*d.n { // most of them were dropped from the table
		old := d.big
		d.big = map[uintptr]uintptr{key: old[key]}
		for i := range d.tab {
			if n, ok := old[d.tab[i].key]; ok {
				d.big[d.tab[i].key] = n
			}
		}
	}
}

// sizeOf returns how many bytes the chain covers that ends with a.
func (d *domain) sizeOf(a *access, key uintptr) uintptr {
	if n := a.small(); n < bigSize {
		return uintptr(n)
	}
	return d.big[key]
}
