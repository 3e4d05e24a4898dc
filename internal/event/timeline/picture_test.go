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

// A picture has the threads, slices and arrows of its time, and nothing else.
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
		err := timeline.Picture(&out, strings.NewReader(elements), v)
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

	// Processes stand in their order, not in that of their numbers.
	ordered := strings.Replace(elements, `[`, `[
{"name":"process_sort_index","ph":"M","ts":0,"pid":1,"tid":0,"args":{"sort_index":8}},
{"name":"process_sort_index","ph":"M","ts":0,"pid":2,"tid":0,"args":{"sort_index":7}},
{"name":"process_name","ph":"M","ts":0,"pid":2,"tid":0,"args":{"name":"before"}},
{"name":"x","ph":"X","ts":0.000,"dur":10.000,"pid":2,"tid":1},`, 1)
	var rows strings.Builder
	require.NoError(t, timeline.Picture(&rows, strings.NewReader(ordered), timeline.View{}))
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
	require.EqualError(t, err, "timeline: nothing to be shown: from 20h0m0s to 21h0m0s, 1200 pixels wide; times are from 0 to 1ms, the second is larger, and widths from 380 to 32768")

	// A label can be anything.
	var out strings.Builder
	require.NoError(t, timeline.Picture(&out, strings.NewReader(strings.Replace(elements, `"first"`, `"nul\u0000 escape\u001b \ufffe <&>"`, 1)), timeline.View{}))
	require.NoError(t, xml.Unmarshal([]byte(out.String()), new(struct{})), "it is well formed")
	require.ErrorContains(t, timeline.Picture(io.Discard, strings.NewReader("{"), timeline.View{}), "timeline: ")
}
