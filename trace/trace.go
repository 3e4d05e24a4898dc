// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"

	"weft/internal/event"
	"weft/internal/event/output"
)

// Recorder is a recording: the value of task.Config.Trace and comm.Config.Trace. Of its methods, programs need Close, which
// ends it and returns what went wrong, and perhaps Lost, which says how many events had no room.
type Recorder = event.Recorder

// EnvFile is the environment variable that names the file of an unchanged program's recording.
const EnvFile = output.EnvFile

// Options set a recording up.
type Options struct {
	// File is written anew. It must be given.
	File string
	// Ring is how many events of each slot and each rank are kept until they are written: a power of two. 0 means 65536; each takes 32
	// bytes.
	Ring int
}

// New begins a recording. The error says what is not legal in the options, or with the file.
func New(o Options) (*Recorder, error) {
	if o.File == "" {
		return nil, errors.New("trace: Options.File is empty; it names the file to be written")
	}
	return output.Open(o.File, o.Ring)
}
