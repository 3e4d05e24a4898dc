// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import "fmt"

// fenceOf is a window as the operation of a fence's request.
type fenceOf Win

func (f *fenceOf) String() string {
	c := (*Win)(f).Comm()
	return fmt.Sprintf("fence of a window, at rank %d of %d", c.Rank(), c.Size())
}
