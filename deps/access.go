// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

import "weft/internal/chain"

// An Access says how a task uses an object, or a range of memory: make it with [In], [Out],
// [InOut], [Concurrent] or [Commutative], by [Slice], or by a reduction. It is a small value; the
// task keeps what it needs of it. While the task may still use the object, the access keeps the
// object alive.
type Access struct{ a chain.Access } // package task casts lists of them: no other field

// In declares that the task reads the object at p. Readers run together.
//
// The object is named by its address: two pointers name the same object when
// they are equal, whatever their types are; a struct and its first field are
// one object, an array and its first element too. All constructors panic if p is nil
// or points to a zero-size object, since Go lets different zero-size objects
// share one address.
func In[T any](p *T) Access { return Access{chain.Object(p, chain.ModeIn)} }

// Out declares that the task overwrites the object at p. There is no renaming:
// Out orders exactly as [InOut] does; the name is documentation.
func Out[T any](p *T) Access { return Access{chain.Object(p, chain.ModeOut)} }

// InOut declares that the task reads and writes the object at p: it runs after
// all earlier accesses to the object and before all later ones.
func InOut[T any](p *T) Access { return Access{chain.Object(p, chain.ModeInOut)} }

// Concurrent declares that the task updates the object at p and synchronises by itself with the
// other tasks of its run: consecutive Concurrent accesses run together, and the run as a whole is a
// writer to the accesses before and after it.
func Concurrent[T any](p *T) Access { return Access{chain.Object(p, chain.ModeConcurrent)} }

// Commutative declares that the task reads and writes the object at p, and that the order among the
// tasks of its run does not matter, as long as one at a time has the object. Consecutive
// Commutative accesses form a run, which as a whole is a writer to the accesses before and after
// it.
//
// A task takes all its Commutative objects together, when nothing else holds it back. It keeps each
// until the task is over or gives the object up by Release, and its children that use the object
// are over too. The exclusion is by object, whatever the domain: two tasks of one process that name
// the same object Commutative never run at the same time. Ranges exclude each other byte by byte
// ([Range.Commutative]). No task is overtaken for ever.
//
// To the children of a task that has the object Commutative, Commutative accesses to it are InOut
// accesses, in their order: the parent has the object for them. Other objects are other locks: a
// task that waits for children or events keeps its objects, so the tasks it waits for must not need
// them.
func Commutative[T any](p *T) Access { return Access{chain.Object(p, chain.ModeCommutative)} }

// Weak returns the weak form of the access: the task itself does not touch
// the object, but its descendants may. A weak access does not delay the task; it
// links the children's accesses into the chain of the object, where each waits for
// what it needs. A weak Commutative access takes no exclusion; the children's do, each for itself.
func (a Access) Weak() Access { return Access{a.a.Weak()} }

// Mode returns the mode of the access.
func (a Access) Mode() Mode { return Mode(a.a.Mode()) }

// IsWeak reports whether the access is weak.
func (a Access) IsWeak() bool { return a.a.IsWeak() }

// String returns the access as it is written in a program, with the address.
func (a Access) String() string { return a.a.String() }

// A Range is a range of memory, made by [Slice]. Its methods make accesses to it.
type Range struct{ r chain.Range }

// Slice names the memory of s[0:len(s)], for an access to a part of an array:
//
//	t.Spawn(fill, deps.Slice(a[lo:hi]).Out())
//	t.Spawn(smooth, deps.Slice(a[lo-1:hi+1]).In(), deps.Slice(b[lo:hi]).Out())
//
// Accesses to ranges are ordered byte by byte: two conflict where they overlap, however they
// overlap, and a range conflicts with an object ([In], [Out], …) where they overlap, the object
// being the bytes of the variable. An empty slice is legal and conflicts with nothing. Slice panics
// if the elements have size zero, since they have no memory.
//
// Ranges cost more than objects. Where all tasks name the same blocks, name each block by
// a pointer instead.
func Slice[S ~[]E, E any](s S) Range { return Range{chain.Slice(s)} }

// In declares that the task reads the range.
func (r Range) In() Access { return Access{r.r.Access(chain.ModeIn)} }

// Out declares that the task overwrites the range. It orders as InOut does.
func (r Range) Out() Access { return Access{r.r.Access(chain.ModeOut)} }

// InOut declares that the task reads and writes the range.
func (r Range) InOut() Access { return Access{r.r.Access(chain.ModeInOut)} }

// Concurrent declares that the task updates the range together with neighbours of the same mode, as
// [Concurrent] does for an object.
func (r Range) Concurrent() Access { return Access{r.r.Access(chain.ModeConcurrent)} }

// Commutative declares that the task reads and writes the range in any order with neighbours of the
// same mode, as [Commutative] does for an object. Two tasks exclude each other if their ranges
// overlap, by however few bytes; others run together. A task takes all its ranges and objects in
// one step.
func (r Range) Commutative() Access { return Access{r.r.Access(chain.ModeCommutative)} }

// Mode is how an access uses its object.
type Mode uint8

// The modes of OmpSs-2's discrete dependencies that weft has.
const (
	ModeIn    = Mode(chain.ModeIn)    // read
	ModeOut   = Mode(chain.ModeOut)   // overwrite; orders as ModeInOut
	ModeInOut = Mode(chain.ModeInOut) // read and write
	// update together with neighbours of the same mode
	ModeConcurrent = Mode(chain.ModeConcurrent)
	// contribute to a private copy, which is combined later
	ModeReduce = Mode(chain.ModeReduce)
	// read and write, one at a time, in any order with neighbours of the same mode
	ModeCommutative = Mode(chain.ModeCommutative)
)

// String returns the name of the mode's constructor.
func (m Mode) String() string { return chain.Mode(m).String() }
