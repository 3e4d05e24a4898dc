// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"image/gif"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRampPassesThroughItsColours(t *testing.T) {
	r := ramp(1025)
	for i, want := range []color.RGBA{
		{0, 0, 255, 255}, {0, 255, 255, 255}, {0, 255, 0, 255}, {255, 255, 0, 255}, {255, 0, 0, 255},
	} {
		require.Equal(t, want, r[i*256])
	}
}

func TestScaleClampsAndSurvivesOneValue(t *testing.T) {
	s := emptyRange(4)
	require.Equal(t, 0, s.index(7))
	s.widen(1)
	require.Equal(t, 0, s.index(1))
	s.widen(3)
	for x, want := range map[float64]int{0: 0, 1: 0, 1.49: 0, 1.5: 1, 2: 2, 2.9: 3, 3: 3, 9: 3} {
		require.Equal(t, want, s.index(x), x)
	}
}

func decode(t *testing.T, m *Movie) *gif.GIF {
	t.Helper()
	var buf bytes.Buffer
	require.NoError(t, m.Encode(&buf))
	g, err := gif.DecodeAll(&buf)
	require.NoError(t, err)
	return g
}

func TestMovieSizes(t *testing.T) {
	for _, c := range []struct{ rows, cols, height, width int }{
		{1, 1, 512, 512},
		{16, 8, 512, 256},
		{300, 200, 300, 200},
		{512, 512, 512, 512},
		{513, 513, 512, 512},
		{1024, 512, 512, 256},
		{640, 2048, 160, 512},
		{3, 5000, 1, 512},
	} {
		m := NewMovie(c.rows, c.cols, 2)
		g := decode(t, m)
		require.Len(t, g.Image, 2)
		require.Equal(t, c.height, g.Config.Height, fmt.Sprint(c))
		require.Equal(t, c.width, g.Config.Width, fmt.Sprint(c))
		var cells float64
		for _, n := range m.weight {
			require.Positive(t, n)
			cells += n
		}
		require.EqualValues(t, c.rows*c.cols, cells)
	}
}

func TestMovieAveragesAndSharesOneScale(t *testing.T) {
	m := NewMovie(1024, 1024, 2)
	row := make([]float64, 1024)
	for c := range row {
		row[c] = float64(c % 2) // average 0.5 over each pixel
	}
	for r := range 1024 {
		m.Add(0, r, 0, make([]float64, 1024))
		m.Add(1, r, 512, row[512:])
		m.Add(1, r, 0, row[:512])
	}
	var buf bytes.Buffer
	require.NoError(t, m.Encode(&buf))
	g, err := gif.DecodeAll(&buf)
	require.NoError(t, err)
	require.Zero(t, g.LoopCount)
	require.Less(t, g.Delay[0], g.Delay[1])
	for i, p := range g.Image[0].Pix {
		require.EqualValues(t, 0, p)
		require.EqualValues(t, 128, g.Image[1].Pix[i])
	}
}

func TestPPM(t *testing.T) {
	m := [][]float64{{0, 1}, {2, 4}, {4, 4}}
	var b strings.Builder
	require.NoError(t, EncodePPM(&b, 3, 2, func(r int) []float64 { return m[r] }))
	require.Equal(t, "P3\n2 3\n255\n0 0 255\n0 255 255\n0 255 0\n255 0 0\n255 0 0\n255 0 0\n", b.String())
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteErrorsAreReported(t *testing.T) {
	require.ErrorContains(t, NewMovie(4, 4, 1).Encode(failingWriter{}), "disk full")
	require.ErrorContains(t, EncodePPM(failingWriter{}, 1, 1, func(int) []float64 { return []float64{1} }), "disk full")
}
