// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

// A Purpose is what a collective is for that another package makes of those here: ranks must agree on it, and errors name it. Package rma
// has windows, package nam stores.
type Purpose uint8

// The purposes.
const (
	ForWindow   = Purpose(window)
	ForFence    = Purpose(fence)
	ForFree     = Purpose(freeing)
	ForAllocate = Purpose(allocate)
	ForAttach   = Purpose(attach)
	ForInfo     = Purpose(setInfo)
)

// AllgatherFor is Allgather.
func (c *Comm) AllgatherFor(p Purpose, send, recv Buffer) error {
	return c.collective(collKind(p), send, recv, Op{}, -1)
}

// IbarrierFor is Ibarrier.
func (c *Comm) IbarrierFor(p Purpose) *Request {
	return c.icollective(collKind(p), Buffer{}, Buffer{}, Op{}, -1)
}

// NoteFor has a collective counted that the caller makes of messages of its own: ranks compare at
// the end of the run whether all have called the same ones.
func (c *Comm) NoteFor(p Purpose) {
	if c.barredHere() == nil {
		c.hist.note(collKind(p))
	}
}

// Disagreed says that ranks do not agree on what NoteFor has counted, and that the program hears of
// err. Each rank finds it by itself; nothing of c is compared any more.
func (c *Comm) Disagreed(err error) {
	c.proc.disagreed(c.hist.c.ctx, &disagreement{err: err})
	if d := c.disagreement(c.proc.trouble.Load()); d != nil {
		d.heard.Store(true)
	}
}

// Later adds n to the number of collectives that the caller has taken on and not begun yet, since
// each begins when the one before is over. While there are such, a rank whose function is over is
// not taken for one that lacks them. To look once is enough: another rank is ahead by one at most,
// until this one begins the next.
func (c *Comm) Later(n int) { c.hist.later.Add(int32(n)) }
