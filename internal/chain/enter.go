// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

// enterPlain is enter for the first accesses of list as long as they are what most are: strong, In, Out or
// InOut, to objects that the list has not named yet. It returns how many these are, which is how many accesses of n it has filled.
func (n *Node) enterPlain(d *domain, list []Access, f *Flow) (k int32) {
	tab, mul, shift := d.tab, d.mul, d.shift
	for k := range list {
		key := addr(list[k].ptr)
		if e := &tab[home(key, mul, shift)&uint(len(tab)-1)]; e.key == key && e.last != nil {
			e.last.prefetch2() // the links will write it, and succ
		}
	}
	for k = range int32(len(list)) {
		x := &list[k]
		key, size := addr(x.ptr), x.sizeLo
		if x.mode > ModeInOut || x.weak || x.sizeHi != 0 || !fits(size) || key == 0 {
			return k
		}
		i := home(key, mul, shift)
		e := &tab[i&uint(len(tab)-1)]
		for e.key != key { // as in slot, which would be a call for every third key
			if e.key == 0 {
				e = d.add(e, key, f)
				tab, mul, shift = d.tab, d.mul, d.shift
				break
			}
			i++
			e = &tab[i&uint(len(tab)-1)]
		}
		last := e.last
		if last != nil && (n.has(last) || d.ups != nil && last == d.up(e) && last.given) {
			return k
		}
		a := n.at(k)
		s := uint32(0)
		if x.mode == ModeIn {
			s = isReader
		}
		a.state.Init(s)
		a.given = false
		a.put(k, size)
		a.setRef(x.ptr)
		a.setSucc(last)
		e.last = a
	}
	return int32(len(list))
}
