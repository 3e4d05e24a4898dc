//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps_test

import (
	"testing"

	explorer "weft/internal/explore"
)

// TestPlantedBugs: the rules of README.md, broken, are found by exploration.
func TestPlantedBugs(t *testing.T) { explorer.FindBugs(t, "deps", plantedBugs) }

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
		Old: "\t\tif ps&lingers == 0 {\n\t\t\tf.atRest(prev.owner())\n\t\t}\n",
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
}

const lastWordIs = "\treturn s&(hasNext|others|s>>posReader&1*hasR) == hasNext\n"
