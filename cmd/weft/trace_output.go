// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"weft/internal/event/journal"
)

// writeOutput has write make a file, or standard output for "" and "-". Who looks at a file while it is made sees the one before, which an error leaves
// as it was; that a recording is cut is not one, since what it has is written. What is no ordinary file, such as /dev/null, is written to, and stays what it
// is. None of the files that the output is made of can be the output.
func writeOutput(out io.Writer, file string, from []string, write func(io.Writer) error) error {
	if file == "" || file == "-" {
		return write(out)
	}
	before, err := os.Stat(file)
	if err == nil {
		for _, name := range from {
			if st, err := os.Stat(name); err == nil && os.SameFile(before, st) {
				return usageError{fmt.Errorf("the output %s is one of the recordings that it is made of; legal is another name", file)}
			}
		}
	}
	if err == nil && !before.Mode().IsRegular() {
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return writeAndClose(f, write)
	}
	f, err := os.Create(file + ".part")
	if err != nil {
		return err
	}
	err = writeAndClose(f, write)
	if err == nil || errors.Is(err, journal.ErrCut) {
		return errors.Join(err, os.Rename(f.Name(), file))
	}
	_ = os.Remove(f.Name()) // err says why there is none
	return err
}

func writeAndClose(f *os.File, write func(io.Writer) error) error {
	b := bufio.NewWriter(f)
	err := write(b)
	if e := b.Flush(); e != nil && (err == nil || errors.Is(err, journal.ErrCut)) {
		err = e
	}
	if e := f.Close(); e != nil && (err == nil || errors.Is(err, journal.ErrCut)) {
		err = e
	}
	return err
}
