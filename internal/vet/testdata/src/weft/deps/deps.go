// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package deps stands for that of weft.
package deps

type Access struct{}

func (a Access) Weak() Access { return a }

func In[T any](p *T) (a Access)          { return }
func Out[T any](p *T) (a Access)         { return }
func InOut[T any](p *T) (a Access)       { return }
func Concurrent[T any](p *T) (a Access)  { return }
func Commutative[T any](p *T) (a Access) { return }

type Range struct{}

func Slice[S ~[]E, E any](s S) (r Range) { return }

func (r Range) In() (a Access)    { return }
func (r Range) Out() (a Access)   { return }
func (r Range) InOut() (a Access) { return }
