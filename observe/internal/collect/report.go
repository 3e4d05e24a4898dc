// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weft/internal/event"
	"weft/observe/internal/dist"
	"weft/observe/internal/page"
)

// Group has the statistics of the tasks with one label.
type Group struct {
	Label string
	Site  string // where the first of them was spawned
	Kind
}

// Groups returns the statistics by label, by run time in descending order; the duration of the
// recording; and notes about what is missing.
func (c *Collector) Groups() (groups []*Group, watched time.Duration, notes []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := map[string]*Group{}
	kinds := c.scaled()
	for _, spec := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[spec]
		if k.Sum.Count == 0 {
			continue
		}
		label, site := c.nameLocked(spec)
		g := by[label]
		if g == nil {
			g = &Group{Label: label, Site: site}
			by[label] = g
			groups = append(groups, g)
		}
		g.merge(k)
	}
	rate := c.rateLocked()
	for _, g := range groups {
		g.Sum.Scale(rate)
		for _, d := range []*dist.D{&g.Run, &g.Deps, &g.Ready, &g.Blocked, &g.Bound} {
			d.Rate = rate
		}
	}
	slices.SortStableFunc(groups, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(b.Sum.Run, a.Sum.Run), cmp.Compare(a.Label, b.Label))
	})
	return groups, c.watchedLocked(), c.notesLocked()
}

// rateLocked is the length of a tick in nanoseconds. +checklocks:c.mu
func (c *Collector) rateLocked() float64 {
	const many = 1 << 40
	return float64(c.rec.Clock().Span(many)) / many
}

func (k *Kind) merge(o *Kind) {
	k.Sum.Add(&o.Sum)
	k.Run.Merge(&o.Run)
	k.Deps.Merge(&o.Deps)
	k.Ready.Merge(&o.Ready)
	k.Blocked.Merge(&o.Blocked)
	k.Bound.Merge(&o.Bound)
	k.Failed += o.Failed
	k.Skipped += o.Skipped
}

// watchedLocked is the duration of the recording until now. +checklocks:c.mu
func (c *Collector) watchedLocked() time.Duration {
	end := c.end
	if !c.closed {
		end = event.Ticks()
	}
	return time.Duration(c.rec.Clock().Span(end - c.begun))
}

const (
	maxOldest = 12
	maxLabels = 24
)

// State returns the data of the live page.
func (c *Collector) State() *page.State {
	groups, _, _ := c.Groups()
	c.mu.Lock()
	defer c.mu.Unlock()
	now := event.Ticks()
	if c.closed {
		now = c.end
	}
	clock := c.rec.Clock()
	since := func(ticks int64) time.Duration { return max(0, time.Duration(clock.Span(now-ticks))) }
	s := &page.State{Watched: c.watchedLocked(), Stopped: c.closed, Notes: c.notesLocked(), Graph: c.graph.max > 0}
	c.slotsLocked(s, since)

	var old []*live
	for _, t := range c.live {
		if t.seen&sawSpawned == 0 {
			continue
		}
		n := t.weight
		switch state, _ := t.state(); state {
		case "running":
			s.Tasks.Running += n
		case "ready":
			s.Tasks.Ready += n
		case "waiting":
			s.Tasks.Waiting += n
		case "bound":
			s.Tasks.Bound += n
		case "blocked":
			s.Tasks.Blocked += n
		default:
			continue
		}
		if t.parent != 0 {
			old = keepOldest(old, t, maxOldest)
		}
	}
	for _, g := range groups {
		s.Tasks.Over += g.Sum.Count
	}
	for _, t := range old {
		state, from := t.state()
		label, site := c.nameLocked(t.spec)
		s.Oldest = append(s.Oldest, page.Old{Task: t.id, Label: label, Site: shortSite(site), State: state, Age: since(t.spawned), Since: since(from), Waits: c.waitsLocked(t, state)})
	}
	for i, p := range c.rate {
		if i > 0 {
			q := c.rate[i-1]
			s.Rate = append(s.Rate, page.Point{T: p.at, N: float64(p.over-q.over) / (p.at - q.at)})
		}
	}
	s.To = s.Watched.Seconds()
	s.From = max(0, s.To-ratePast)
	for _, g := range groups[:min(len(groups), maxLabels)] {
		s.Labels = append(s.Labels, page.Label{
			Label: g.Label, Site: shortSite(g.Site), Tasks: g.Sum.Count, Run: g.Sum.Run, RunMean: g.Run.Mean(), Run99: g.Run.Quantile(0.99),
			Deps: perTask(g.Sum.Deps, g), Ready: perTask(g.Sum.Ready, g), Blocked: perTask(g.Sum.Blocked, g), Bound: perTask(g.Sum.Comm, g),
		})
	}
	if n := len(groups) - maxLabels; n > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%d more labels are in the statistics.", n))
	}
	return s
}

// keepOldest inserts a task into the list of the tasks that were spawned first, in order. The list
// keeps at most most of them, because a million tasks can be live, and the caller holds the lock.
func keepOldest(old []*live, t *live, most int) []*live {
	order := func(a, b *live) int { return cmp.Or(cmp.Compare(a.spawned, b.spawned), cmp.Compare(a.id, b.id)) }
	if len(old) == most && order(t, old[most-1]) > 0 {
		return old
	}
	i, _ := slices.BinarySearchFunc(old, t, order)
	old = slices.Insert(old, i, t)
	return old[:min(len(old), most)]
}

// perTask is the mean over all tasks of a group.
func perTask(sum time.Duration, g *Group) time.Duration {
	return sum / time.Duration(max(1, g.Sum.Count))
}

// slotsLocked adds the state of the slots. +checklocks:c.mu
func (c *Collector) slotsLocked(s *page.State, since func(int64) time.Duration) {
	slots := slices.SortedFunc(maps.Values(c.slots), func(a, b *slot) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.index, b.index))
	})
	idle := "looking for work"
	if n, _ := c.leftOut(); n > 0 {
		idle = "no observed task"
	}
	for i, x := range slots {
		p := page.Slot{Slot: i, Busy: x.share, State: idle}
		switch t := c.live[x.task]; {
		case x.task != 0 && t != nil:
			p.State, p.Task, p.Since = "running", x.task, since(x.since)
			p.Label, _ = c.nameLocked(t.spec)
		case x.parked:
			p.State = "parked"
		}
		s.Slots = append(s.Slots, p)
	}
	s.Workers = len(slots)
}

// waitsLocked returns what a task waits for; "" if that is not known. +checklocks:c.mu
func (c *Collector) waitsLocked(t *live, state string) string {
	if state != "bound" && state != "blocked" {
		return ""
	}
	if r, ok := c.requests[t.request]; ok && t.request != 0 {
		return r.String()
	}
	if state == "blocked" {
		return cmp.Or(map[uint8]string{
			event.BlockedWait:       "its children",
			event.BlockedUndeferred: "an undeferred child, or the accesses of WaitOn",
			event.BlockedWindow:     "the throttle: too many live children",
			event.BlockedOutside:    "a function that Blocking runs",
		}[t.reason], "an Unblock, or the operation of an Await")
	}
	return "an event"
}

// String describes a request.
func (r request) String() string {
	peer, tag := int32(uint32(r.b)), int32(uint32(r.b>>32))
	rank, what := fmt.Sprint(peer), fmt.Sprint(tag)
	if peer < 0 {
		rank = "any"
	}
	if tag < 0 {
		what = "any"
	}
	switch r.kind {
	case event.SendPosted:
		return fmt.Sprintf("a send to rank %s, tag %s", rank, what)
	case event.RecvPosted:
		return fmt.Sprintf("a receive from rank %s, tag %s", rank, what)
	case event.EpochClosing:
		return fmt.Sprintf("a fence of window %d, epoch %d", uint32(r.b), r.c)
	}
	return "a " + event.Collective(r.b).Name
}

// shortSite removes the directories of a position, except for the last one.
func shortSite(site string) string {
	file, fn, ok := strings.Cut(site, " (")
	parts := strings.Split(file, "/")
	file = strings.Join(parts[max(0, len(parts)-2):], "/")
	if !ok {
		return file
	}
	return file + " (" + shortName(fn)
}

// shortName is the function of a position, without the path of its package.
func shortName(site string) string {
	if _, fn, ok := strings.Cut(site, " ("); ok {
		site = strings.TrimSuffix(fn, ")")
	}
	return site[strings.LastIndexByte(site, '/')+1:]
}
