//go:build !linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"time"

	"weft/internal/fabric"
)

type poller struct{ fabric.NoSource }

type socket struct{ dead, full bool }

// newPoller returns nil: on this system, each connection has a reader and a writer.
func newPoller(*Endpoint) (*poller, error) { return nil, nil }
func (*poller) doorbellLoop()              {}
func (*poller) end(time.Duration) error    { return nil }
