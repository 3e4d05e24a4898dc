// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// newProgress returns a function that advances a progress bar by one, and one that ends the bar. If
// no bar is wanted, or w is no terminal, the first is nil and the second does nothing.
func newProgress(wanted bool, w io.Writer, total int, what string) (step, end func()) {
	f, ok := w.(*os.File)
	if !wanted || !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, func() {}
	}
	bar := progressbar.NewOptions(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
	// The bar's only errors are those of writing to the terminal.
	return func() { _ = bar.Add(1) }, func() { _ = bar.Finish() }
}
