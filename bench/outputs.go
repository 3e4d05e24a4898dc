// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"os"
)

// standardOutput, as the name of a file, means standard output.
const standardOutput = "-"

// checkOutputs returns an error for each file that cannot be written. It is called before anything
// is measured. An empty name is no file. Existing files stay unchanged, and no file is created.
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
