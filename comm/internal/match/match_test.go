// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden scripts in testdata")

// TestMatchScripts drives the engine step by step. A script is a list of steps, ----, and the
// result of each step:
//
//	recv NAME CTX SRC TAG     post a receive; * is a wildcard
//	probe NAME CTX SRC TAG    post a waiting probe
//	msg NAME CTX SRC TAG      a message arrives
//	peek CTX SRC TAG          look for an unexpected message
//	cancel NAME               withdraw a receive
//	drain                     remove everything
func TestMatchScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/match/*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			script, want, _ := strings.Cut(string(data), "----\n")
			got := runScript(t, script)
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(script+"----\n"+got), 0o644))
				return
			}
			require.Equal(t, want, got)
		})
	}
}

func runScript(t *testing.T, script string) string {
	var (
		m     Matcher
		out   strings.Builder
		recvs = map[string]*Posted{}
		msgs  = map[*Arrival]string{}
		names = map[*Posted]string{}
	)
	key := func(f []string) Key {
		num := func(s string) int {
			if s == "*" {
				return Wild
			}
			n, err := strconv.Atoi(s)
			require.NoError(t, err)
			return n
		}
		return Key{uint64(num(f[0])), int32(num(f[1])), int32(num(f[2]))}
	}
	for _, line := range strings.Split(strings.TrimSpace(script), "\n") {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		fmt.Fprintf(&out, "%s: ", line)
		switch f[0] {
		case "recv", "probe":
			p := &Posted{Key: key(f[2:]), IsScan: f[0] == "probe"}
			recvs[f[1]], names[p] = p, f[1]
			if a := m.Post(p); a == nil {
				out.WriteString("waits")
			} else {
				if !p.IsScan {
					m.Remove(a)
				}
				out.WriteString("finds " + msgs[a])
			}
		case "msg":
			if p := m.Take(key(f[2:])); p != nil {
				out.WriteString("goes to " + names[p])
				break
			}
			a := &Arrival{Key: key(f[2:])}
			msgs[a] = f[1]
			out.WriteString("unexpected")
			for p := m.Add(a); p != nil; p = p.Next {
				out.WriteString(", wakes " + names[p])
			}
		case "peek":
			if a := m.Peek(key(f[1:])); a != nil {
				out.WriteString(msgs[a])
			} else {
				out.WriteString("nothing")
			}
		case "cancel":
			fmt.Fprint(&out, m.Unpost(recvs[f[1]]))
		case "drain":
			ps, as := m.Drain()
			for _, p := range ps {
				out.WriteString(names[p] + " ")
			}
			out.WriteString("/")
			for _, a := range as {
				out.WriteString(" " + msgs[a])
			}
		default:
			t.Fatalf("unknown step %q", line)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// modelEntry is a receive or message of the model, which is two plain lists, searched from the
// front.
type modelEntry struct {
	key  Key
	name int
}

func wants(r, m Key) bool {
	return r.Ctx == m.Ctx && (r.Src == Wild || r.Src == m.Src) && (r.Tag == Wild || r.Tag == m.Tag)
}

// TestMatchOracle compares the engine with two lists over random steps. Half of the runs are
// shallow: there is little in the engine at a time, so that receives become solo and messages lone.
func TestMatchOracle(t *testing.T) {
	var soloTaken, soloFiled, soloWithdrawn, loneTaken, loneFiled, lonePeeked int
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var m Matcher
		var recvs, msgs []modelEntry
		posts := map[int]*Posted{}
		names := map[*Posted]int{}
		arrivals := map[*Arrival]int{}
		var over []*Posted
		var gone []*Arrival
		wildness := rng.IntN(3) // 0: none
		spread := 1 + rng.IntN(200)
		bias := rng.IntN(100)
		for step := range 1500 {
			k := Key{uint64(rng.IntN(2)), int32(rng.IntN(3)), int32(rng.IntN(spread))}
			x := rng.IntN(100)
			if seed%2 == 0 && len(recvs)+len(msgs) > rng.IntN(3) { // make the lists shorter
				switch {
				case rng.IntN(4) == 0:
				case len(msgs) > 0:
					k, x = msgs[0].key, -1
				default:
					k, x = recvs[0].key, 100
					k.Src, k.Tag = max(k.Src, 0), max(k.Tag, 0)
				}
			}
			solo, lone := m.solo, m.lone
			require.False(t, solo != nil && lone != nil || (solo != nil || lone != nil) && len(recvs)+len(msgs) != 1)
			if r := k.In(rng.IntN(Classes)); rng.IntN(4) == 0 {
				i := slices.IndexFunc(msgs, func(e modelEntry) bool { return wants(r, e.key) })
				a := m.Peek(r)
				require.Equal(t, i >= 0, a != nil, "seed %d step %d", seed, step)
				if a != nil {
					require.Equal(t, msgs[i].name, arrivals[a], "seed %d step %d", seed, step)
				}
				if lone != nil && a == lone {
					lonePeeked++
				}
			}
			switch {
			case x >= 0 && x < 5 && len(recvs) > 0:
				i := rng.IntN(len(recvs))
				if solo != nil {
					soloWithdrawn++
				}
				require.True(t, m.Unpost(posts[recvs[i].name]))
				require.False(t, m.Unpost(posts[recvs[i].name]))
				over = append(over, posts[recvs[i].name])
				recvs = slices.Delete(recvs, i, i+1)
			case x < bias:
				if x >= 0 && rng.IntN(2) < wildness {
					k = k.In(rng.IntN(Classes))
				}
				i := slices.IndexFunc(msgs, func(e modelEntry) bool { return wants(k, e.key) })
				p := new(Posted)
				if n := len(over); n > 0 { // operations are reused
					p, over = over[n-1], over[:n-1]
				}
				p.Key = k
				posts[step], names[p] = p, step
				a := m.Post(p)
				if solo != nil && m.solo == nil {
					soloFiled++
				}
				if i < 0 {
					require.Nil(t, a, "seed %d step %d", seed, step)
					recvs = append(recvs, modelEntry{k, step})
					break
				}
				require.NotNil(t, a, "seed %d step %d", seed, step)
				require.Equal(t, msgs[i].name, arrivals[a], "seed %d step %d", seed, step)
				if a == m.lone {
					loneTaken++
				}
				m.Remove(a)
				gone = append(gone, a)
				msgs = slices.Delete(msgs, i, i+1)
			default:
				i := slices.IndexFunc(recvs, func(e modelEntry) bool { return wants(e.key, k) })
				p := m.Take(k)
				if i < 0 {
					require.Nil(t, p, "seed %d step %d", seed, step)
					a := new(Arrival)
					if n := len(gone); n > 0 {
						a, gone = gone[n-1], gone[:n-1]
					}
					a.Key = k
					arrivals[a] = step
					m.Add(a)
					msgs = append(msgs, modelEntry{k, step})
					break
				}
				require.NotNil(t, p, "seed %d step %d", seed, step)
				require.Equal(t, recvs[i].name, names[p], "seed %d step %d", seed, step)
				recvs = slices.Delete(recvs, i, i+1)
				over = append(over, p)
				if p == solo {
					soloTaken++
				}
			}
			if lone != nil && m.lone == nil && m.waiting > 0 {
				loneFiled++
			}
		}
		ps, as := m.Drain()
		require.Len(t, ps, len(recvs))
		require.Len(t, as, len(msgs))
		for i, p := range ps {
			require.Equal(t, recvs[i].name, names[p])
		}
		for i, a := range as {
			require.Equal(t, msgs[i].name, arrivals[a])
		}
	}
	require.Greater(t, min(soloTaken, soloFiled, soloWithdrawn), 10, "%d solo receives were taken, %d filed, %d withdrawn",
		soloTaken, soloFiled, soloWithdrawn)
	require.Greater(t, min(loneTaken, loneFiled, lonePeeked), 10, "%d lone messages were taken, %d filed, %d peeked at",
		loneTaken, loneFiled, lonePeeked)
}

// TestMatchAllOrders compares the engine with lists over all programs of four steps, and over
// random longer ones. The steps are receives, waiting probes and peeks of each class, messages, and
// withdrawals.
func TestMatchAllOrders(t *testing.T) {
	const length = 4
	var keys [Classes]Key
	for class := range Classes {
		keys[class] = Key{1, 0, 0}.In(class)
	}
	const steps = 2*Classes + 3 + 2 + 1
	rng := rand.New(rand.NewPCG(1, 2))
	all := int(math.Pow(steps, length))
	for program := range all + 20000 {
		plan := make([]int, length, 20)
		for i, x := 0, program; i < length; i, x = i+1, x/steps {
			plan[i] = x % steps
		}
		for program >= all && len(plan) < cap(plan) {
			plan = append(plan, rng.IntN(steps))
		}
		if problem := runPlan(keys, plan); problem != "" {
			t.Fatalf("program %v: %s", plan, problem)
		}
	}
}

// runPlan runs a program, and returns the first difference from the model. Steps are, in this
// order: receive and probe by one of the keys; a message of one of three keys; withdraw the oldest
// or the newest receive or probe; peek by all keys.
func runPlan(keys [Classes]Key, plan []int) string {
	var m Matcher
	var ps []*Posted  // oldest first
	var as []*Arrival // oldest first
	find := func(k Key) *Arrival {
		for _, a := range as {
			if wants(k, a.Key) {
				return a
			}
		}
		return nil
	}
	for i, step := range plan {
		switch {
		case step < 2*Classes:
			p := &Posted{Key: keys[step%Classes], IsScan: step >= Classes}
			want, got := find(p.Key), m.Post(p)
			if got != want {
				return fmt.Sprintf("step %d finds another message", i)
			}
			switch {
			case got == nil:
				ps = append(ps, p)
			case !p.IsScan:
				m.Remove(got)
				as = slices.DeleteFunc(as, func(a *Arrival) bool { return a == got })
			}
		case step < 2*Classes+3:
			k := Key{1, int32(step - 2*Classes), 0}
			if k.Src == 2 {
				k.Src, k.Tag = 0, 1
			}
			at := slices.IndexFunc(ps, func(p *Posted) bool { return !p.IsScan && wants(p.Key, k) })
			got := m.Take(k)
			if (got == nil) != (at < 0) || got != nil && got != ps[at] {
				return fmt.Sprintf("step %d goes to another receive", i)
			}
			if got != nil {
				ps = slices.Delete(ps, at, at+1)
				break
			}
			a := &Arrival{Key: k}
			as = append(as, a)
			for p := m.Add(a); p != nil; p = p.Next {
				if at := slices.Index(ps, p); at < 0 || !p.IsScan || !wants(p.Key, k) {
					return fmt.Sprintf("step %d wakes what does not wait for it", i)
				} else {
					ps = slices.Delete(ps, at, at+1)
				}
			}
			if slices.ContainsFunc(ps, func(p *Posted) bool { return p.IsScan && wants(p.Key, k) }) {
				return fmt.Sprintf("step %d does not wake a probe", i)
			}
		case step < 2*Classes+5:
			if len(ps) == 0 {
				break
			}
			at := (step - 2*Classes - 3) * (len(ps) - 1)
			if !m.Unpost(ps[at]) || m.Unpost(ps[at]) {
				return fmt.Sprintf("step %d: a receive is there once", i)
			}
			ps = slices.Delete(ps, at, at+1)
		default:
			for _, k := range keys {
				if m.Peek(k) != find(k) {
					return fmt.Sprintf("step %d sees another message", i)
				}
			}
		}
		if m.Idle() != (len(ps)+len(as) == 0) {
			return fmt.Sprintf("idle is wrong after step %d", i)
		}
	}
	gotPs, gotAs := m.Drain()
	if !slices.Equal(gotPs, ps) || !slices.Equal(gotAs, as) || !m.Idle() {
		return "something else is left"
	}
	return ""
}

// A program that uses a new tag for each message must not grow the table.
func TestMatcherMemoryIsBounded(t *testing.T) {
	var m Matcher
	m.Post(&Posted{Key: Key{2, 0, 0}}) // so that no other one is solo
	for i := range 100000 {
		k := Key{1, 0, int32(i)}
		m.Post(&Posted{Key: k})
		require.NotNil(t, m.Take(k))
	}
	require.LessOrEqual(t, len(m.buckets), 64)
}
