// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/json"
	"io"
	"math"
)

// DrawJSON is Picture for a timeline in its file format.
func DrawJSON(w io.Writer, timeline string, v View) error {
	return draw(w, v, func(take func(*entry)) error {
		var all struct {
			TraceEvents []struct {
				Name, Cat, Ph, ID string
				Ts, Dur           float64
				Pid, Tid          int
				Args              map[string]any
			}
		}
		if err := json.Unmarshal([]byte(timeline), &all); err != nil {
			return err
		}
		for _, x := range all.TraceEvents {
			if i, ok := x.Args["sort_index"].(float64); ok {
				x.Args["sort_index"] = int(i)
			}
			d := micros(math.Round(x.Dur * 1e3))
			take(&entry{Name: x.Name, Cat: x.Cat, Phase: x.Ph, ID: x.ID, Time: micros(math.Round(x.Ts * 1e3)), Dur: &d, Pid: x.Pid, Tid: x.Tid, Args: x.Args})
		}
		return nil
	})
}

// DrawMany is Picture for a timeline of n slices, n marks and n arrows on two threads in turn. Each
// slice is a microsecond long, with a microsecond between two slices.
func DrawMany(w io.Writer, n int, v View) error {
	return draw(w, v, func(take func(*entry)) error {
		for i := range n {
			at, tid, d := micros(2000*i), 1+i%2, micros(1000)
			take(&entry{Name: "slice", Phase: "X", Time: at, Dur: &d, Pid: 1, Tid: tid})
			take(&entry{Name: "mark", Phase: "i", Time: at, Pid: 1, Tid: tid})
			take(&entry{Name: "arrow", Phase: "s", Time: at, Pid: 1, Tid: tid, ID: "1"})
			take(&entry{Name: "arrow", Phase: "f", Time: at + 1000, Pid: 1, Tid: 3 - tid, ID: "1"})
		}
		return nil
	})
}
