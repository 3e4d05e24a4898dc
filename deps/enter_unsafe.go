// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

import (
	"unsafe"

	"weft/internal/xatomic"
)

// enterPlain is enter for the first accesses of list as long as they are what most are: strong, In, Out or
// InOut, to objects that the list has not named yet. It returns how many these are, which is how many accesses of n it has filled.
func (n *Node) enterPlain(d *domain, list []Access, f *Flow) (k int) {
	accs := n.accs[:len(list)]
	tab, mul, shift := d.tab, d.mul, d.shift
	for k = range list {
		x := &list[k]
		key, size := x.ptr, x.sizeLo
		if x.mode > ModeInOut || x.weak || x.sizeHi != 0 || size >= bigSize || key == nil {
			return k
		}
		i := home(key, mul, shift)
		e := &tab[i&uint(len(tab)-1)]
		for e.key != key { // as in slot, which would be a call for every third key
			if e.key == nil {
				e = d.add(e, key, f)
				tab, mul, shift = d.tab, d.mul, d.shift
				break
			}
			i++
			e = &tab[i&uint(len(tab)-1)]
		}
		last := e.last
		if last != nil && (last.within(accs, k) || d.ups != nil && last == d.up(e) && last.given) {
			return k
		}
		a := &accs[k]
		s := uint32(0)
		if x.mode == ModeIn {
			s = isReader
		}
		a.state.Init(s)
		a.given = false
		a.setSmall(size)
		a.ref = key
		a.owner = n
		a.succ = last
		e.last = a
		if last != nil {
			xatomic.PrefetchW(unsafe.Pointer(last)) // the links will write them
		}
	}
	return len(list)
}
