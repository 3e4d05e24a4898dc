// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

// An access knows how many bytes the variables have that its chain of objects names, as far as that
// is not known to be over: the largest of them. It is of no use until a range is named in the
// domain, and then says what the chain covers. It fits beside access.given and place, so that it
// costs no memory; objects of bigSize bytes and more have their sizes in domain.big.
//
// given is a byte of its own, since the task's body writes it while others read these.
const bigSize = 1<<24 - 1

// Sizes have twenty bits: those of half a MiB and more are in units, and must be a number of these,
// as arrays mostly are.
const (
	sizeUnit = 32
	inUnits  = 1 << (16 + 8 - placeBits - 1)
)

// fits reports whether an access can say by itself that its variable has n bytes.
func fits(n uint32) bool { return n < inUnits || n%sizeUnit == 0 && n < bigSize-sizeUnit }

// coded returns n, which fits or is bigSize, in twenty bits.
func coded(n uint32) uint32 {
	if n < inUnits {
		return n
	}
	return inUnits | n/sizeUnit
}

// small returns the size, or bigSize if it is in domain.big.
func (a *access) small() uint32 {
	n := uint32(a.place)>>placeBits<<16 | uint32(a.sizeLo)
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
	a.place = a.place&(1<<placeBits-1) | uint8(n>>16)<<placeBits
	a.sizeLo = uint16(n)
}

// put makes a access i of its node, with a size.
func (a *access) put(i int32, size uint32) {
	size = coded(size)
	a.place, a.sizeLo = placeOf(i)|uint8(size>>16)<<placeBits, uint16(size)
}

// cover adds x to the variables that a names. Precondition: its domain remembers x if x is large.
func (a *access) cover(x Access) {
	n := uint32(min(x.size(), bigSize))
	if !fits(n) {
		n = bigSize
	}
	if n > a.small() {
		a.setSmall(n)
	}
}

// inherit adds the variables of prev, the access before a. In most chains they are all of one size.
func (a *access) inherit(prev *access) {
	if prev.sizeLo != a.sizeLo || (prev.place^a.place)>>placeBits != 0 {
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
