// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"os"
)

// standardOutput is the name of a file that is standard output.
const standardOutput = "-"

// checkOutputs finds, before anything is measured, which of the files that are written at the end
// cannot be. An empty name is no file. What is there stays as it is, and what is not there is not
// made.
func checkOutputs(names ...string) error {
	var errs []error
	for _, name := range names {
		if name == "" || name == standardOutput {
			continue
		}
		_, err := os.Stat(name)
		made := errors.Is(err, os.ErrNotExist)
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
		if err == nil {
			err = f.Close()
			if made {
				err = errors.Join(err, os.Remove(name))
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
