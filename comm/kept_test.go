// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"
)

// The memory of a receive is referenced by nothing when the receive is over: not until the rank
// receives again, nor by the communicators that the run keeps.
func TestMemoryOfWhatIsOver(t *testing.T) {
	ops := map[string]func(c *Comm, b []byte) error{
		"recv": func(c *Comm, b []byte) error {
			if c.Rank() == 0 {
				return c.Send(Of(b), 1, 0)
			}
			_, err := c.Recv(Of(b), 0, 0)
			return err
		},
		"recv that waits": func(c *Comm, b []byte) error {
			if c.Rank() == 0 {
				if _, err := c.Recv(Of(b[:1]), 1, 0); err != nil {
					return err
				}
				return c.Send(Of(b), 1, 0)
			}
			r := c.Isend(Of(b[:1]), 0, 0)
			if _, err := c.Recv(Of(b), 0, 0); err != nil {
				return err
			}
			return wait(r)
		},
		"sendrecv": func(c *Comm, b []byte) error {
			half := len(b) / 2
			_, err := c.Sendrecv(Of(b[:half]), c.other(), 0, Of(b[half:]), c.other(), 0)
			return err
		},
		"irecv": func(c *Comm, b []byte) error {
			r := c.Irecv(Of(b), c.other(), 0)
			if err := c.Send(Of([]byte{1}), c.other(), 0); err != nil {
				return err
			}
			return wait(r)
		},
		"bcast": func(c *Comm, b []byte) error { return c.Bcast(Of(b), 0) },
		"ibcast of a copy": func(c *Comm, b []byte) error {
			d, err := c.Dup()
			if err != nil {
				return err
			}
			return wait(d.Ibcast(Of(b), 0))
		},
	}
	for how, run := range runners {
		for name, op := range ops {
			for _, size := range []int{smallLen, 1 << 20} {
				t.Run(fmt.Sprintf("%s, %s of %d bytes", how, name, size), func(t *testing.T) {
					require.NoError(t, run(t.Context(), Config{Ranks: 2}, func(c *Comm) error {
						use := func() (weak.Pointer[byte], error) {
							b := make([]byte, size)
							return weak.Make(&b[0]), op(c, b)
						}
						mem, err := use()
						if err == nil {
							err = c.Barrier() // the other rank may still have been copying
						}
						if err != nil {
							return err
						}
						for range 5 {
							runtime.GC()
						}
						if mem.Value() != nil {
							return errors.New("the memory of an operation that is over is kept")
						}
						return c.Barrier()
					}))
				})
			}
		}
	}
}
