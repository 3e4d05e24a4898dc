// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each kind has its own row, in order. Its fields do not overlap, and its sentence names all of
// them.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	for i, k := range Table() {
		require.Equal(t, Kind(i+1), k.Kind, k.Name)
		require.Equal(t, k.Name, k.Kind.String())
		require.False(t, names[k.Name], k.Name)
		names[k.Name] = true
		require.Same(t, k.Kind.Info(), Table()[i].Kind.Info())
		var used [3]uint64
		said := map[string]bool{}
		for _, m := range regexp.MustCompile(`\{([a-z]+)\}`).FindAllStringSubmatch(k.Sentence, -1) {
			said[m[1]] = true
		}
		for _, f := range k.Fields {
			require.NotZero(t, f.Bits, "%s.%s", k.Name, f.Name)
			mask := (uint64(1)<<f.Bits - 1) << f.Shift
			require.LessOrEqual(t, int(f.Shift)+int(f.Bits), 64)
			require.Zero(t, used[f.Word]&mask, "%s.%s overlaps another field", k.Name, f.Name)
			used[f.Word] |= mask
			require.True(t, said[f.Name], "%s: the sentence does not name %s", k.Name, f.Name)
			require.NotEmpty(t, f.Type.String())
			require.Equal(t, f.Type == Flags || f.Type == Enum, f.Values != nil, "%s.%s", k.Name, f.Name)
			delete(said, f.Name)
		}
		require.Empty(t, said, "%s: the sentence names unknown fields", k.Name)
	}
	require.Equal(t, "kind 0", Kind(0).String())
	require.Equal(t, "kind 255", Kind(255).String())
}

// The functions that pack words agree with the table.
func TestPacking(t *testing.T) {
	get := func(r Record, field string) int64 {
		f := r.Kind().Info().Field(field)
		require.NotNil(t, f, field)
		return r.Get(f)
	}
	r := Make(77, Spawned, 5, 3, SpawnedC(0xfedcba98, -7, SpawnedMain|SpawnedReady))
	require.Equal(t, int64(77), r.Ticks())
	require.Equal(t, int64(5), get(r, "task"))
	require.Equal(t, int64(3), get(r, "parent"))
	require.Equal(t, int64(0xfedcba98), get(r, "spec"))
	require.Equal(t, int64(-7), get(r, "priority"))
	require.Equal(t, int64(SpawnedMain|SpawnedReady), get(r, "flags"))
	require.Equal(t, int64(6), get(Make(0, Spawned, 0, 0, SpawnedC(1, -1, 255)|6<<SpawnedSampled), "sampled"))
	require.Equal(t, int64(-32768), get(Make(0, Spawned, 0, 0, SpawnedC(1, -1<<31, 0)), "priority"))
	require.Equal(t, int64(32767), get(Make(0, Spawned, 0, 0, SpawnedC(1, 1<<31-1, 0)), "priority"))

	r = Make(1<<56-1, Access, 1, AccessB(0xc0ffee123456, 5, true, false), 24)
	require.Equal(t, int64(1<<56-1), r.Ticks())
	require.Equal(t, Access, r.Kind())
	require.Equal(t, int64(0xc0ffee123456), get(r, "address"))
	require.Equal(t, int64(5), get(r, "mode"))
	require.Equal(t, int64(AccessWeak), get(r, "flags"))
	require.Equal(t, int64(24), get(r, "size"))
	require.Equal(t, int64(AccessRange), get(Make(0, Access, 0, AccessB(1, 1, false, true), 0), "flags"))

	r = Make(0, SendPosted, 1, PeerB(-1, 1<<31-1), 0)
	require.Equal(t, int64(-1), get(r, "peer"))
	require.Equal(t, int64(1<<31-1), get(r, "tag"))
	require.Equal(t, int64(-1), get(Make(0, RecvPosted, 1, PeerB(3, -1), 0), "tag"))
}

// The table reads the fields of each kind as the functions pack them.
func TestPackingOfEvents(t *testing.T) {
	for _, c := range []struct {
		r    Record
		want string
	}{
		{Make(0, Access, 1, AccessB(^uintptr(0), 255, false, false), 3), "task 1 declares 255 of 3 bytes at 0xffffffffffff, -"},
		{Make(0, Access, 1, AccessB(16, 2, true, true), 3), "task 1 declares InOut of 3 bytes at 0x10, weak, range"},
		{Make(0, EpochClosing, 1, FenceB(1<<32-1, FenceLast), 5), "request 1: fence of window 4294967295, which is to close epoch 5: last"},
		{Make(0, EpochClosing, 1, FenceB(2, FenceOpens|FenceLast), 5), "request 1: fence of window 2, which is to close epoch 5: opens, last"},
		{Make(0, Put, TargetA(-1, 1<<32-1), OperationB(1<<32-1, 1), 3), "operation 1 of window 4294967295, in epoch 4294967295: put 3 bytes in the region of rank any"},
		{Make(0, Get, TargetA(1<<31-1, 4), OperationB(2, 1<<32-1), 3), "operation 4294967295 of window 2, in epoch 4: get 3 bytes from the region of rank 2147483647"},
		{Make(0, WindowNamed, 3, 0, WindowNamedC(1<<32-1, AttachedTo)), "window 3 is network-attached memory, attached to as <4294967295>"},
		{Make(0, WindowNamed, 3, 0, WindowNamedC(1, Allocated)), "window 3 is network-attached memory, allocated as <1>"},
		{Make(0, CollectiveBegun, 1, CollectiveB(-1, 4, 1<<24-1), 7|9<<40), "request 1: allreduce number 7 of the 16777215 ranks of communicator 9; root any, or position any in a scan"},
		{Make(0, CollectiveBegun, 1, CollectiveB(6, 2, 3), 7|9<<40), "request 1: bcast number 7 of the 3 ranks of communicator 9; root 6, or position 6 in a scan"},
		{Make(0, SendPosted, 1, PeerB(5, -1), 8), "request 1: send 8 bytes to rank 5 of communicator 0 with tag any"},
		{Make(0, SendPosted, 1, PeerB(-2, 0), 8), "request 1: send 8 bytes to rank -2 of communicator 0 with tag 0"},
		{Make(0, Blocked, 1, BlockedOutside, 0), "task 1 gives up its slot: outside"},
		{Make(0, Blocked, 1, BlockedOutside+1, 0), "task 1 gives up its slot: 5"},
		{Make(0, Bound, 1, 2, WaitedFor), "request 1 is waited for by task 2"},
		{Make(0, Ended, 1, 0, EndedCompleted|EndedFailed|4), "the body of task 1 returns, with 0 events pending: completed, failed"},
		{Make(0, Spawned, 2, 1, SpawnedC(3, -5, SpawnedReady|SpawnedOnReady)|2<<SpawnedSampled), "task 2 is spawned by 1 from <3>, with priority -5: ready, onready; it stands for 2^2 tasks"},
		{Make(0, Parked, 0, 0, 0), "the slot has found no work and parks"},
		{Make(0, 0, 1, 2, 3), "kind 0"},
		{Make(0, kinds, 1, 2, 3), fmt.Sprintf("kind %d", kinds)},
	} {
		require.Equal(t, c.want, Sentence(&c.r, func(id uint32) string { return fmt.Sprintf("<%d>", id) }))
	}
	require.Nil(t, Access.Info().Field("none"))
}

// The page gives the bits of a field, unless the field is a whole word.
func TestFieldsOfPage(t *testing.T) {
	i := Info{Fields: []Field{word(0, "a", Number), part(1, "b", Rank, 1, 63), part(2, "c", Enum, 0, 8, "x", "y")}}
	require.Equal(t, "`a`: number, A; `b`: rank, B 1–63; `c`: one of, C 0–7 (x, y)", i.fields())
	require.Equal(t, "–", new(Info).fields())
}

// A set has the kinds that it was made of, and All has every kind.
func TestSets(t *testing.T) {
	require.Zero(t, Of())
	for k := range Kind(64) {
		require.Equal(t, k != 0 && k < kinds, All.Has(k), k)
		require.Equal(t, k != 0 && k < kinds, k.Info() != nil, k)
		for j := range Kind(64) {
			require.Equal(t, j == k || j == Put, Of(k, Put).Has(j))
		}
	}
}

func TestDocumentationIsTheTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/events.md")
	require.NoError(t, err)
	require.Equal(t, Markdown(), string(page), "run: go run ./cmd/weft trace events > docs/events.md")
}
