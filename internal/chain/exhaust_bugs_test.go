//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"testing"

	explorer "weft/internal/explore"
)

// TestPlantedBugs: the rules of README.md, broken, are found by exploration.
func TestPlantedBugs(t *testing.T) { explorer.FindBugs(t, "chain", plantedBugs) }

var plantedBugs = []explorer.Bug{
	{
		Name: "rule 1: ready before the deliveries", File: "flow.go", Test: "TestExploreAllSketches/two_objects,_opening",
		Decl: "var late bool",
		Old:  "\tlate := s&lingers != 0\n",
		New:  "\tlate = s&lingers != 0\n\tif e&ready != 0 && s&isWeak == 0 {\n\t\tf.granted(a.owner(), s)\n\t\te &^= ready\n\t}\n",
	}, {
		Name: "rule 2: nobody lingers", File: "flow.go", Test: "TestExploreAllSketches/weak_ends_while_readers_do",
		Old: "\treturn was&r != 0 && st.s&(isReader|isWeak) != isReader ||\n\t\twas&g != 0 && st.s&isWeak != 0\n",
		New: "\treturn was == 1<<31\n",
	}, {
		Name: "rule 2: the sender does not mark itself", File: "flow.go", Test: "TestExploreAllSketches/two_objects,_to_a_child",
		Old: "\t\t\t\tif s&linger == 0 {\n\t\t\t\t\ta.state.Add(linger)\n\t\t\t\t}\n",
		New: "",
	}, {
		Name: "rule 2: what lingers is at rest", File: "node_unsafe.go", Test: "TestExploreAllSketches/weak_ends_while_readers_do",
		Old: "\t\tif ps&lingers == 0 {\n\t\t\tf.atRest(prev.owner())\n\t\t} else {\n\t\t\tf.leave(prev.owner())\n\t\t}\n",
		New: "\t\tf.atRest(prev.owner())\n",
	}, {
		Name: "rule 2: a late message finds its link cut", File: "flow.go", Test: "TestExploreAllSketches/child_and_next",
		Decl: "var next *access",
		Old:  "\tnext := st.a.succLate()\n\tif next == nil {\n\t\treturn\n\t}\n",
		New:  "\tnext = st.a.succLate()\n",
	}, {
		Name: "rule 2: the first token cuts the link", File: "flow.go", Test: "TestExploreAll",
		Old: "\tif e&sendW != 0 && *late {\n\t\tst.a.cutSucc()\n\t}\n",
		New: "\tst.a.cutSucc()\n",
	}, {
		Name: "rule 2: the links of all accesses are cut when one is over", File: "flow.go", Test: "TestExploreAllSketches/one_of_two_lingers",
		Old: "\tif n.refs.Add(-1) == isLeft {\n\t\tn.cut()\n\t}\n",
		New: "\tn.refs.Add(-1)\n\tn.cut()\n",
	}, {
		Name: "rule 3: delivery through the predecessor", File: "node_unsafe.go", Test: "TestExploreAllSketches/reader_last_in_a_writer",
		Decl: "var s uint32",
		Old:  "\ts := last.state.Add(hasNext | nextUp)\n",
		New:  "\tf.set(last, hasNext|nextUp)\n\treturn\n",
	}, {
		Name: "rule 4: a solo task behind a group", File: "node_unsafe.go", Test: "TestExploreAllPrograms/read_token_to_a_member",
		Decl: "var ps uint32",
		Old:  "\t\tps := prev.state.Load()\n",
		New:  "\t\tps = prev.state.Load()\n\t\ta.state.Init(a.state.Load() | isSolo)\n\t\treturn f.linkNext(prev, a, ps)\n",
	}, {
		Name: "the linker delivers a token twice", File: "node_unsafe.go", Test: "TestExploreAll",
		Decl: "var t uint32",
		Old:  "\tt := passes(s)\n",
		New:  "\tt = passes(s)\n\tgiven = 0\n",
	}, {
		Name: "the linker goes by an old look", File: "node_unsafe.go", Test: "TestExploreAll",
		Decl: "var t uint32",
		Old:  "\tt := passes(s)\n",
		New:  "\tt = passes(ps | b)\n",
	}, {
		Name: "a reader keeps the read token", File: "flow.go", Test: "TestExploreAll/three_tasks",
		Old: "\tif bits == hasR && s&(through|hasChild|isReader|outR|outW) == 0 {\n\t\treturn // a writer keeps the read token until it is over\n\t}\n",
		New: "\tif bits == hasR && s&hasChild == 0 {\n\t\treturn\n\t}\n",
	}, {
		Name: "the last word before the link", File: "state.go", Test: "TestExploreAll/three_tasks",
		Old: lastWordIs, New: "\treturn s&(others|s>>posReader&1*hasR) == 0\n",
	}, {
		Name: "the last word for a reader that runs", File: "state.go", Test: "TestExploreAll/three_tasks",
		Old: lastWordIs, New: "\treturn s&(hasNext|others) == hasNext\n",
	}, {
		Name: "the last word for a weak access", File: "state.go", Test: "TestExploreAll/three_tasks",
		Old: lastWordIs, New: "\treturn s&(hasNext|others&^isWeak|s>>posReader&1*hasR) == hasNext\n",
	}, {
		Name: "the last word for a group", File: "state.go", Test: "TestExploreAll/three_tasks",
		Old: lastWordIs, New: "\treturn s&(hasNext|others&^isGroup|s>>posReader&1*hasR) == hasNext\n",
	}, {
		Name: "an end that nobody hears of", File: "node_unsafe.go", Test: "TestExploreAll/three_tasks",
		Old: "\ts = a.state.Add(through)\n",
		New: "\tif s&^noMatter == hasW {\n\t\ta.state.Keep(s)\n\t\treturn\n\t}\n\ts = a.state.Add(through)\n",
	}, {
		Name: "rule 1: a reader starts before it has passed the token on", File: "pass.go", Test: "TestExploreAllSketches/two_objects",
		Decl: "var n uint32",
		Old:  "\t\tn := next.state.Look()\n",
		New:  "\t\tn = 0\n\t\tf.granted(owner, s)\n\t\ta.touch()\n\t\tf.push(a.succ(), hasR)\n\t\treturn\n",
	},

	// Sinks and gates, and solo tasks, whose memory is used again.
	{
		Name: "a sink: the write token overtakes the read token", File: "bridge_unsafe.go", Test: "TestExploreReuse/late_from_a_sink",
		Old: "\t\tif t.sentR {\n\t\t\t// The read token may still be under way to the access (README.md, \"Late messages\").\n\t\t\tb |= lingerUp\n\t\t}\n",
		New: "",
	}, {
		Name: "a sink forgets that it has sent the read token", File: "bridge_unsafe.go", Test: "TestExploreReuse/late_from_a_sink",
		Old: "\t\tt.sentR = true\n", New: "",
	}, {
		Name: "a bridge has its child before it is linked", File: "ranges_unsafe.go", Test: "TestExploreReuse/into_a_gate",
		Old: "\t\tif last := ends[i]; last.owner() == p {\n\t\t\tf.linkChild(last, b.access())\n\t\t} else {\n\t\t\tf.linkNext(last, b.access(), last.state.Load())\n\t\t}\n\t\tf.set(b.access(), hasChild|childGrp)\n",
		New: "\t\tf.set(b.access(), hasChild|childGrp)\n\t\tif last := ends[i]; last.owner() == p {\n\t\t\tf.linkChild(last, b.access())\n\t\t} else {\n\t\t\tf.linkNext(last, b.access(), last.state.Load())\n\t\t}\n",
	}, {
		Name: "a reader that is over rests before its successor is known", File: "pass.go", Test: "TestExploreReuse/solo_readers",
		Old: "\t\t\ta.touch()\n\t\t\tnext := a.succ()\n\t\t\tf.atRest(a.owner())\n\t\t\ta = next\n\t\t\tcontinue\n",
		New: "\t\t\tf.atRest(a.owner())\n\t\t\ta.touch()\n\t\t\ta = a.succ()\n\t\t\tcontinue\n",
	}, {
		Name: "a reader that is over stays", File: "pass.go", Test: "TestExploreReuse/solo_readers",
		Old: "\t\t\ta.touch()\n\t\t\tnext := a.succ()\n\t\t\tf.atRest(a.owner())\n\t\t\ta = next\n\t\t\tcontinue\n",
		New: "\t\t\ta = a.succ()\n\t\t\tcontinue\n",
	},

	// Ranges in the exclusion.
	{
		Name: "P1: a task that comes does not cut", File: "commutative_unsafe.go", Test: "TestExploreExclusion",
		Old: "\tfor _, x := range bytes {\n\t\te.cutOut(x)\n\t}\n",
		New: "",
	}, {
		Name: "P1: a task takes only what is there", File: "exclusion_range.go", Test: "TestExploreExclusion",
		Old: "\te.bytes.fill(x.lo, x.hi, func(s *span[*claim], isNew bool) {\n\t\tif isNew {\n\t\t\ts.v = new(claim)\n\t\t}\n\t\tf(s.v)\n\t})\n",
		New: "\tnone := true\n\te.bytes.walk(x.lo, x.hi, func(_, _ uintptr, v **claim) {\n\t\tif v != nil {\n\t\t\tnone = false\n\t\t\tf(*v)\n\t\t}\n\t})\n" +
			"\tif none {\n\t\te.bytes.fill(x.lo, x.hi, func(s *span[*claim], isNew bool) {\n\t\t\ts.v = new(claim)\n\t\t\tf(s.v)\n\t\t})\n\t}\n",
	}, {
		Name: "P2: nobody holds the second part", File: "exclusion_range.go", Test: "TestExploreExclusion",
		Decl: "var second *claim",
		Old:  "\tsecond := &claim{holder: c.holder}\n", New: "\tsecond = new(claim)\n",
	}, {
		Name: "P2: nobody waits for the second part", File: "exclusion_range.go", Test: "TestExploreExclusion/cut_under_a_waiter",
		Old: cutWaiters, New: "",
	}, {
		Name: "P2: a waiter forgets the second part", File: "exclusion_range.go", Test: "TestExploreExclusion",
		Old: cutWaiters, New: "\tfor y := c.first; y != nil; y = y.next {\n\t\tnew(want).join(y.w, second)\n\t}\n",
	}, {
		Name: "P2: the watchers go to the second part", File: "exclusion_range.go", Test: "TestExploreExclusion",
		Decl: "var second *claim",
		Old:  "\tsecond := &claim{holder: c.holder}\n",
		New:  "\tsecond = &claim{holder: c.holder, watchers: c.watchers}\n\tc.watchers = 0\n",
	}, {
		Name: "P3: what is given back is not cut", File: "exclusion_range.go", Test: "TestExploreExclusion",
		Old: "\t\te.cutOut(d.extent)\n", New: "",
	}, {
		Name: "P3: pieces stay", File: "exclusion_range.go", Test: "TestExploreExclusion",
		Old: "\t\te.forget(d.extent)\n", New: "",
	}, {
		Name: "P3: pieces that somebody waits for are forgotten", File: "exclusion_range.go", Test: "TestExploreExclusion",
		Old: "\t\treturn m.has(p) && m.at(p).lo < x.hi && m.at(p).v.holder == nil && m.at(p).v.first == nil\n",
		New: "\t\treturn m.has(p) && m.at(p).lo < x.hi && m.at(p).v.holder == nil\n",
	}, {
		Name: "G1: a piece that is free is not served", File: "exclusion_range.go", Test: "TestExploreExclusion",
		Old: "\t\t\tif (*v).holder = nil; (*v).first != nil {\n\t\t\t\tl.free = append(l.free, lo)\n\t\t\t}\n",
		New: "\t\t\tif (*v).holder = nil; (*v).first != nil && lo == d.lo {\n\t\t\t\tl.free = append(l.free, lo)\n\t\t\t}\n",
	}, {
		Name: "G2: no second look after relocking", File: "exclusion_unsafe.go", Test: "TestExploreExclusion",
		Old: "\t\t\t\tgoto again // w may have its objects by now, and its memory may be another's\n",
		New: "\t\t\t\tif w.age == 0 {\n\t\t\t\t\tgoto again\n\t\t\t\t}\n",
	}, {
		Name: "G2: a waiter goes on watching what it could have", File: "exclusion_unsafe.go", Test: "TestExploreExclusion",
		Old: "\t\t\tw.watches(on)\n", New: "",
	}, {
		Name: "nothing is kept", File: "exclusion_unsafe.go", Test: "TestExploreExclusion/kept",
		Old: "\t\tif y.w.reserved() {\n\t\t\treturn true\n\t\t}\n", New: "\t\tif y.w.reserved() {\n\t\t\treturn x != nil\n\t\t}\n",
	}, {
		Name: "a waiter that has become reserved stays clean", File: "exclusion_unsafe.go", Test: "TestExploreExclusion/kept",
		Old: "\t\t\texclusions.reserves.Add(1)\n", New: "\t\t\t_ = exclusions.reserves.Load()\n",
	}, {
		Name: "a waiter that has gone is the last that is clean", File: "exclusion_unsafe.go", Test: "TestExploreExclusion",
		Old: "\tif c.clean == x {\n\t\tc.clean = x.prev\n\t}\n", New: "",
	},
}

// cutWaiters is how a piece that is cut off gets its waiters.
const cutWaiters = "\tfor y := c.first; y != nil; y = y.next {\n\t\tz := new(want)\n\t\tz.join(y.w, second)\n\t\tif y.w.more == nil {\n\t\t\ty.w.more = new(manyWants)\n\t\t}\n\t\ty.w.more.cuts = append(y.w.more.cuts, z)\n\t}\n"

const lastWordIs = "\treturn s&(hasNext|others|s>>posReader&1*hasR) == hasNext\n"
