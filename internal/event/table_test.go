// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each kind has its own line, in order; its fields do not overlap, and are what the sentence names.
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
			require.True(t, said[f.Name], "%s: the sentence does not say %s", k.Name, f.Name)
			require.NotEmpty(t, f.Type.String())
			require.Equal(t, f.Type == Flags || f.Type == Enum, f.Values != nil, "%s.%s", k.Name, f.Name)
			delete(said, f.Name)
		}
		require.Empty(t, said, "%s: the sentence names fields that there are not", k.Name)
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

func TestDocumentationIsTheTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/events.md")
	require.NoError(t, err)
	require.Equal(t, Markdown(), string(page), "run: go run ./cmd/weft trace events > docs/events.md")
}
