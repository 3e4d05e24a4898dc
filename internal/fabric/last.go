// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package fabric

import "sync/atomic"

// Last returns a function that is to be called n times, and calls done the last time, with the first error.
func Last(n int, done func(error)) func(error) {
	if n == 1 {
		return done
	}
	var (
		left   atomic.Int64
		failed atomic.Pointer[error]
	)
	left.Store(int64(n))
	return func(err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
		}
		if left.Add(-1) > 0 {
			return
		}
		if e := failed.Load(); e != nil {
			done(*e)
			return
		}
		done(nil)
	}
}
