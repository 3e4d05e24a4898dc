// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

// The ways of a token that most of them take, between strong accesses without children. They do what push and carry do, in the
// same order, without a work list; and where they bring the last thing that happens to a state word, without an
// atomic operation (README.md, "The last to speak").

// passW gives the write token of a, a strong access that is over, to the successor. Earlier messages of it are delivered by now.
func (f *Flow) passW(a *access) {
	a.touch()
	next, owner := a.succ(), a.owner()
	f.grant(next)
	f.atRest(owner)
	if len(f.work) > 0 {
		f.drain()
	}
}

// grant is push(a, hasW) with the common cases done at once: a task that waits
// for just this, and readers that are over already.
func (f *Flow) grant(a *access) {
	const over = isReader | through
	for {
		s := a.state.Look()
		switch {
		case lastWord(s):
			a.state.Settle(s, s|hasW)
			if s&(isReader|nextUp) == isReader {
				f.passR(a, s|hasW)
				return
			}
		case s&over == over && readerOver(s) == hasNext:
			a.state.Keep(s)
			a.touch() //bug:reader-over
			next := a.succ()
			f.atRest(a.owner())
			a = next
			continue //bug:reader-over
		default:
			s = a.state.Add(hasW) - hasW
		}
		s |= hasW
		switch {
		case onlyReady(s):
			if s&isWeak == 0 && !startable(s-hasW) {
				f.granted(a.owner(), s)
			}
			return
		case s&^(isSolo|isHeld) == isReader|hasR|hasW|hasNext:
			return // it runs, and its read token is gone on
		default:
			if e := effects(s) &^ effects(s-hasW); e != 0 {
				f.work = append(f.work, step{a, s, s - hasW, e})
			}
			return
		}
	}
}

// passR carries out what follows when a, a strong reader in state s with a successor that is a sibling's, has got its first token: the read
// token goes on through readers of this kind, each of which may start when it is delivered to the next (rule 1).
func (f *Flow) passR(a *access, s uint32) {
	const noMatter = isSolo | isHeld
	for {
		a.touch()
		next, owner := a.succ(), a.owner()
		n := next.state.Look() //bug:rule1
		if lastWord(n) {
			next.state.Settle(n, n|hasR)
			n |= hasR
		} else {
			n = next.state.Add(hasR)
		}
		f.granted(owner, s)
		switch n &^ noMatter {
		case isReader | hasR | hasNext:
			a, s = next, n
			continue
		case isReader | hasR:
			f.granted(next.owner(), n)
			return
		case hasR, hasR | hasNext:
			return // a writer keeps the read token until it is over
		}
		if e := effects(n) &^ effects(n-hasR); e != 0 {
			f.work = append(f.work, step{next, n, n - hasR, e})
		}
		return
	}
}
