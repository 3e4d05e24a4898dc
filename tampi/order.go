// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !weftlint || !race

package tampi

func (b *binding) tell() {}
func (b *binding) hear() {}
