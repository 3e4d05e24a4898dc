// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package timeline_test

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/event/timeline"
)

// A picture has the threads, slices and arrows of its time range, and nothing else.
func TestPicture(t *testing.T) {
	const elements = `{"traceEvents":[
{"name":"process_name","ph":"M","ts":0,"pid":1,"tid":0,"args":{"name":"rank <0>"}},
{"name":"thread_name","ph":"M","ts":0,"pid":1,"tid":1,"args":{"name":"slot 0"}},
{"name":"thread_name","ph":"M","ts":0,"pid":1,"tid":2,"args":{"name":"slot 1"}},
{"name":"first","ph":"X","ts":0.000,"dur":100.000,"pid":1,"tid":1},
{"name":"second","ph":"X","ts":100.000,"dur":50.000,"pid":1,"tid":2},
{"name":"after","cat":"dependency","ph":"s","ts":100.000,"pid":1,"tid":1,"id":"1"},
{"name":"after","cat":"dependency","ph":"f","bp":"e","ts":100.000,"pid":1,"tid":2,"id":"1"},
{"name":"steal","ph":"i","s":"t","ts":99.000,"pid":1,"tid":2},
{"name":"late","ph":"X","ts":900.000,"dur":100.000,"pid":1,"tid":3}]}`
	draw := func(v timeline.View) (string, error) {
		var out strings.Builder
		err := timeline.DrawJSON(&out, elements, v)
		return out.String(), err
	}
	svg, err := draw(timeline.View{To: 200 * time.Microsecond})
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal([]byte(svg), new(struct{})), "it is well formed")
	for _, part := range []string{"rank &lt;0&gt;, slot 0", "slot 1", "<title>first, 100.0 µs</title>", "second</text>", "<title>steal</title>", "marker-end"} {
		require.Contains(t, svg, part)
	}
	require.NotContains(t, svg, "late")
	require.Equal(t, 1, strings.Count(svg, "marker-end"))

	// Processes are sorted by their sort index, not by their numbers.
	ordered := strings.Replace(elements, `[`, `[
{"name":"process_sort_index","ph":"M","ts":0,"pid":1,"tid":0,"args":{"sort_index":8}},
{"name":"process_sort_index","ph":"M","ts":0,"pid":2,"tid":0,"args":{"sort_index":7}},
{"name":"process_name","ph":"M","ts":0,"pid":2,"tid":0,"args":{"name":"before"}},
{"name":"x","ph":"X","ts":0.000,"dur":10.000,"pid":2,"tid":1},`, 1)
	var rows strings.Builder
	require.NoError(t, timeline.DrawJSON(&rows, ordered, timeline.View{}))
	require.Contains(t, rows.String(), `<text x="4" y="38">before,</text>`)

	svg, err = draw(timeline.View{From: -150 * time.Microsecond})
	require.NoError(t, err)
	require.Contains(t, svg, "late")
	require.NotContains(t, svg, "first")

	_, err = draw(timeline.View{From: 300 * time.Microsecond, To: 400 * time.Microsecond})
	require.ErrorIs(t, err, timeline.ErrView)
	_, err = draw(timeline.View{From: time.Second})
	require.ErrorIs(t, err, timeline.ErrView)
	_, err = draw(timeline.View{Width: 10})
	require.ErrorIs(t, err, timeline.ErrView)
	_, err = draw(timeline.View{Width: 1 << 16})
	require.ErrorIs(t, err, timeline.ErrView)
	_, err = draw(timeline.View{From: 20 * time.Hour, To: 21 * time.Hour})
	require.EqualError(t, err, "timeline: nothing to show: from 20h0m0s to 21h0m0s, 1200 pixels wide; legal are times from 0 to 1ms, the second larger than the first, and widths from 380 to 32768")

	// A label can be anything.
	var out strings.Builder
	require.NoError(t, timeline.DrawJSON(&out, strings.Replace(elements, `"first"`, `"nul\u0000 escape\u001b \ufffe <&>"`, 1), timeline.View{}))
	require.NoError(t, xml.Unmarshal([]byte(out.String()), new(struct{})), "it is well formed")
	require.ErrorContains(t, timeline.Picture(io.Discard, timeline.View{}, "no-such-file"), "no-such-file")
}

// The size of a picture depends on its number of pixels, not on the number of elements in its time
// range. A picture of a part does not depend on elements outside of the part. The memory for
// drawing is that of the drawn elements.
func TestPictureOfMuch(t *testing.T) {
	draw := func(n int, v timeline.View) string {
		var out strings.Builder
		require.NoError(t, timeline.DrawMany(&out, n, v))
		require.NoError(t, xml.Unmarshal([]byte(out.String()), new(struct{})))
		return out.String()
	}
	some, much := draw(20_000, timeline.View{}), draw(200_000, timeline.View{})
	require.InDelta(t, len(some), len(much), float64(len(some))/10)
	require.Greater(t, strings.Count(some, "<rect"), 3000, "two for each pixel")

	part := timeline.View{From: 10 * time.Millisecond, To: 10*time.Millisecond + 100*time.Microsecond}
	require.Equal(t, draw(20_000, part), draw(200_000, part))
	require.Equal(t, 50+1+1, strings.Count(draw(20_000, part), "<rect"), "all of them, the one at the edge, and the background")
}
