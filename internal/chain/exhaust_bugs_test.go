//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"testing"

	explorer "weft/internal/explore"
)

// Exploration finds each violation of a rule of README.md.
func TestPlantedBugs(t *testing.T) { explorer.FindBugs(t, "chain", plantedBugs) }

var plantedBugs = []explorer.Bug{
	{
		Name: "rule 1: ready before the deliveries", File: "flow.go", Test: "TestExploreAllSketches/two_objects,_opening",
		Decl: "var late bool",
		At:   "rule1",
		New:  "\tlate = s&lingers != 0\n\tif e&ready != 0 && s&isWeak == 0 {\n\t\tf.granted(a.owner(), s)\n\t\te &^= ready\n\t}\n",
	}, {
		Name: "rule 2: no access lingers", File: "flow.go", Test: "TestExploreAllSketches/weak_ends_while_readers_do",
		At:  "rule2-linger",
		New: "\treturn was == 1<<31\n",
	}, {
		Name: "rule 2: the sender does not mark itself", File: "flow.go", Test: "TestExploreAllSketches/two_objects,_to_a_child",
		At:  "rule2-sender",
		New: "",
	}, {
		Name: "rule 2: an access that lingers comes to rest", File: "node.go", Test: "TestExploreAllSketches/weak_ends_while_readers_do",
		At:  "rule2-rest",
		New: "\t\tf.atRest(prev.owner())\n",
	}, {
		Name: "rule 2: a late message finds its link cut", File: "flow.go", Test: "TestExploreAllSketches/child_and_next",
		Decl: "var next *access",
		At:   "rule2-late",
		New:  "\tnext = st.a.succLate()\n",
	}, {
		Name: "rule 2: the first token cuts the link", File: "flow.go", Test: "TestExploreAll",
		At:  "rule2-first",
		New: "\tst.a.cutSucc()\n",
	}, {
		Name: "rule 2: the links of all accesses are cut when one is over", File: "flow.go", Test: "TestExploreAllSketches/one_of_two_lingers",
		At:  "rule2-cut",
		New: "\tn.refs.Add(-1)\n\tn.cut()\n",
	}, {
		Name: "rule 3: delivery through the predecessor", File: "node.go", Test: "TestExploreAllSketches/reader_last_in_a_writer",
		Decl: "var s uint32",
		At:   "rule3",
		New:  "\tf.set(last, hasNext|nextUp)\n\treturn\n",
	}, {
		Name: "rule 4: a solo task after a run", File: "node.go", Test: "TestExploreAllPrograms/read_token_to_a_member",
		Decl: "var ps uint32",
		At:   "rule4",
		New:  "\t\tps = prev.state.Load()\n\t\ta.state.Init(a.state.Load() | isSolo)\n\t\treturn f.linkNext(prev, a, ps)\n",
	}, {
		Name: "the linker delivers a token twice", File: "node.go", Test: "TestExploreAll",
		Decl: "var t uint32",
		At:   "link",
		New:  "\tt = passes(s)\n\tpreset = 0\n",
	}, {
		Name: "the linker uses an old state", File: "node.go", Test: "TestExploreAll",
		Decl: "var t uint32",
		At:   "link",
		New:  "\tt = passes(ps | b)\n",
	}, {
		Name: "a reader keeps the read token", File: "flow.go", Test: "TestExploreAll/three_tasks",
		At:  "pass-read",
		New: "\tif bits == hasR && s&hasChild == 0 {\n\t\treturn\n\t}\n",
	}, {
		Name: "a plain store before the link", File: "state.go", Test: "TestExploreAll/three_tasks",
		At: "last-word", New: "\treturn s&(others|s>>posReader&1*hasR) == 0\n",
	}, {
		Name: "a plain store for a reader that runs", File: "state.go", Test: "TestExploreAll/three_tasks",
		At: "last-word", New: "\treturn s&(hasNext|others) == hasNext\n",
	}, {
		Name: "a plain store for a weak access", File: "state.go", Test: "TestExploreAll/three_tasks",
		At: "last-word", New: "\treturn s&(hasNext|others&^isWeak|s>>posReader&1*hasR) == hasNext\n",
	}, {
		Name: "a plain store for a run member", File: "state.go", Test: "TestExploreAll/three_tasks",
		At: "last-word", New: "\treturn s&(hasNext|others&^inRun|s>>posReader&1*hasR) == hasNext\n",
	}, {
		Name: "an end without its bit, though there is no successor", File: "node.go", Test: "TestExploreAll/three_tasks",
		At:  "give-up",
		New: "\tif s&^noMatter == hasW {\n\t\ta.state.Keep(s)\n\t\treturn\n\t}\n\ts = a.state.Add(through)\n",
	}, {
		Name: "rule 1: a reader starts before it has passed the token on", File: "flow.go", Test: "TestExploreAllSketches/two_objects",
		Decl: "var n uint32",
		At:   "rule1-reader",
		New:  "\t\tn = 0\n\t\tf.granted(owner, s)\n\t\ta.checkLive()\n\t\tf.push(a.succ(), hasR)\n\t\treturn\n",
	},

	// Sinks and gates, and solo tasks whose memory is reused.
	{
		Name: "a sink: the write token overtakes the read token", File: "bridge.go", Test: "TestExploreReuse/late_from_a_sink",
		At:  "read-before-write",
		New: "",
	}, {
		Name: "a sink forgets that it has sent the read token", File: "bridge.go", Test: "TestExploreReuse/late_from_a_sink",
		At: "has-sent", New: "",
	}, {
		Name: "a bridge has its child before it is linked", File: "ranges.go", Test: "TestExploreReuse/into_a_gate",
		At:  "bridge",
		New: "\t\tf.set(b.access(), hasChild|childInRun)\n\t\tif last := ends[i]; last.owner() == p {\n\t\t\tf.linkChild(last, b.access())\n\t\t} else {\n\t\t\tf.linkNext(last, b.access(), last.state.Load())\n\t\t}\n",
	}, {
		Name: "a reader that is over rests before its successor is known", File: "flow.go", Test: "TestExploreReuse/solo_readers",
		At:  "reader-over",
		New: "\t\t\tf.atRest(a.owner())\n\t\t\ta.checkLive()\n\t\t\ta = a.succ()\n\t\t\tcontinue\n",
	}, {
		Name: "a reader that is over stays", File: "flow.go", Test: "TestExploreReuse/solo_readers",
		At:  "reader-over",
		New: "\t\t\ta = a.succ()\n\t\t\tcontinue\n",
	},

	// Ranges in the exclusion.
	{
		Name: "P1: a new task does not cut", File: "exclusion.go", Test: "TestExploreExclusion",
		At:  "P1",
		New: "",
	}, {
		Name: "P1: a task takes only existing pieces", File: "exclusion_range.go", Test: "TestExploreExclusion",
		At: "P1",
		New: "\tnone := true\n\te.bytes.walk(x.lo, x.hi, func(_, _ uintptr, v **resource) {\n\t\tif v != nil {\n\t\t\tnone = false\n\t\t\tf(*v)\n\t\t}\n\t})\n" +
			"\tif none {\n\t\te.bytes.fill(x.lo, x.hi, func(s *span[*resource], isNew bool) {\n\t\t\ts.v = new(resource)\n\t\t\tf(s.v)\n\t\t})\n\t}\n",
	}, {
		Name: "P2: the second part has no holder", File: "exclusion_range.go", Test: "TestExploreExclusion",
		Decl: "var second *resource",
		At:   "P2-holder", New: "\tsecond = new(resource)\n",
	}, {
		Name: "P2: the second part has no waiters", File: "exclusion_range.go", Test: "TestExploreExclusion/cut_under_a_waiter",
		At: "P2-waiters", New: "",
	}, {
		Name: "P2: a waiter has no entry for the second part", File: "exclusion_range.go", Test: "TestExploreExclusion",
		At: "P2-waiters", New: "\tfor y := c.first; y != nil; y = y.next {\n\t\tnew(queueEntry).join(y.w, second)\n\t}\n",
	}, {
		Name: "P2: the watchers go to the second part", File: "exclusion_range.go", Test: "TestExploreExclusion",
		Decl: "var second *resource",
		At:   "P2-holder",
		New:  "\tsecond = &resource{holder: c.holder, watchers: c.watchers}\n\tc.watchers = 0\n",
	}, {
		Name: "P3: bytes that are given back are not cut", File: "exclusion_range.go", Test: "TestExploreExclusion",
		At: "P3-cut", New: "",
	}, {
		Name: "P3: pieces stay", File: "exclusion_range.go", Test: "TestExploreExclusion",
		At: "P3-free", New: "",
	}, {
		Name: "P3: pieces with waiters are forgotten", File: "exclusion_range.go", Test: "TestExploreExclusion",
		At:  "P3-waiters",
		New: "\t\treturn m.has(p) && m.at(p).lo < x.hi && m.at(p).v.holder == nil\n",
	}, {
		Name: "G1: a piece that is free is not served", File: "exclusion_range.go", Test: "TestExploreExclusion",
		At:  "G1",
		New: "\t\t\tif (*v).holder = nil; (*v).first != nil && lo == d.lo {\n\t\t\t\tl.free = append(l.free, lo)\n\t\t\t}\n",
	}, {
		Name: "G2: no check after relocking", File: "exclusion.go", Test: "TestExploreExclusion",
		At:  "G2-look",
		New: "\t\t\t\tif w.age == 0 {\n\t\t\t\t\tgoto again\n\t\t\t\t}\n",
	}, {
		Name: "G2: a waiter keeps watching a piece that it could have", File: "exclusion.go", Test: "TestExploreExclusion",
		At: "G2-unwatch", New: "",
	}, {
		Name: "nothing is reserved", File: "exclusion.go", Test: "TestExploreExclusion/kept",
		At: "keep", New: "\t\tif y.w.reserved() {\n\t\t\treturn x != nil\n\t\t}\n",
	}, {
		Name: "a waiter that becomes reserved stays before the clean mark", File: "exclusion.go", Test: "TestExploreExclusion/kept",
		At: "reserved", New: "\t\t\t_ = exclusions.reserves.Load()\n",
	}, {
		Name: "the clean mark stays on a waiter that has left", File: "exclusion.go", Test: "TestExploreExclusion",
		At: "last-clean", New: "",
	},
}
