// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"time"

	"weft/internal/fabric"
)

// dropAfter is how long the way to a lost rank stays open. That rank may be alive, and only out of reach of another one: it hears its own obituary then, by
// this way, and ends. Were the way cut at once, it would take the others for lost.
const dropAfter = newsWait

// drop has the fabric let go of a rank that is lost, so that what waits to be sent to it, and transfers that it will never end, do not stay until the end
// of the run.
func (p *proc) drop(r int, err error) {
	d, ok := p.ep.(fabric.Dropper)
	if !ok || p.world.procs[r] != nil {
		return
	}
	time.AfterFunc(dropAfter, func() { d.Drop(r, err) })
}
