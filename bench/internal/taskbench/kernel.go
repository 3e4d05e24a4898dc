// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package taskbench

import (
	"fmt"
	"math"
	"slices"
)

// A Kind is what a task does besides checking its inputs.
type Kind string

// The kinds of kernels.
const (
	Empty Kind = "empty"
	// an iteration is eight multiplications and eight additions, in registers
	Compute Kind = "compute"
	// an iteration copies 1 KiB, going through memory of the task's own
	Memory     Kind = "memory"
	Imbalanced Kind = "imbalanced" // compute with a random number of iterations
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Empty, Compute, Memory, Imbalanced} }

// ParseKind returns the kind of that name. Task Bench's own names are legal too: compute_bound,
// memory_bound, load_imbalance.
func ParseKind(name string) (Kind, error) {
	long := map[string]Kind{"compute_bound": Compute, "memory_bound": Memory, "load_imbalance": Imbalanced}
	if k, ok := long[name]; ok {
		return k, nil
	}
	if k := Kind(name); slices.Contains(Kinds(), k) {
		return k, nil
	}
	return "", unknownKind(name)
}

func unknownKind[T ~string](name T) error {
	return fmt.Errorf("no kernel %q: there are %s", name, joined(Kinds()))
}

// A Kernel is a kind with its parameters. The number of iterations is a parameter of the run.
type Kernel struct {
	Kind Kind
	// imbalanced: the iterations vary by this part of their number, half of it up and half down; 0
	// means the default
	Imbalance float64
	Scratch   int // memory: bytes of memory per output; 0 means the default
}

// Defaults of the kernels.
const (
	DefaultImbalance = 1.0
	DefaultScratch   = 256 << 10
)

// memoryBlock is the number of bytes that an iteration of memory copies.
const memoryBlock = 1 << 10

const maxScratch = 64 << 20 // per output, of which there are two for each point

// normalize fills in defaults and returns an error for a value that is not legal.
func (k Kernel) normalize() (Kernel, error) {
	if k.Imbalance == 0 {
		k.Imbalance = DefaultImbalance
	}
	if k.Scratch == 0 {
		k.Scratch = DefaultScratch
	}
	switch {
	case !slices.Contains(Kinds(), k.Kind):
		return k, unknownKind(k.Kind)
	case !(k.Imbalance >= 0 && k.Imbalance <= 2):
		return k, fmt.Errorf("imbalance %g: 0 to 2", k.Imbalance)
	case k.Scratch < 2*memoryBlock || k.Scratch > maxScratch || k.Scratch%(2*memoryBlock) != 0:
		return k, fmt.Errorf("scratch %d: a multiple of %d, and at most %d", k.Scratch, 2*memoryBlock, maxScratch)
	}
	return k, nil
}

// iterations returns the number of iterations of the task at (step, point) in a run with n
// iterations.
func (k *Kernel) iterations(n int64, step, point int) int64 {
	if k.Kind != Imbalanced {
		return n
	}
	return int64(math.Round((1 + (uniform(uint64(step), uint64(point))-0.5)*k.Imbalance) * float64(n)))
}

// run makes n iterations and returns a value that depends on all of them. Memory is the task's own.
// Its length is Scratch if the kernel uses memory.
func (k *Kernel) run(n int64, step int, memory []byte) float64 {
	switch k.Kind {
	case Compute, Imbalanced:
		return compute(n)
	case Memory:
		return move(n, step, memory)
	default:
		return 0
	}
}

// compute makes eight independent chains of multiply and add. All converge to one, so no number
// becomes too small or too large for the fast path of the hardware. The conversions forbid the
// compiler to fuse a multiplication with an addition.
func compute(n int64) float64 {
	a, b, c, d, e, f, g, h := 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8
	const m, k = 0.75, 0.25
	for range n {
		a = float64(a*m) + k
		b = float64(b*m) + k
		c = float64(c*m) + k
		d = float64(d*m) + k
		e = float64(e*m) + k
		f = float64(f*m) + k
		g = float64(g*m) + k
		h = float64(h*m) + k
	}
	return a + b + c + d + e + f + g + h
}

// move copies n blocks from the first half of memory to the second. It continues where the step
// before stopped.
func move(n int64, step int, memory []byte) float64 {
	half := len(memory) / 2
	from, to := memory[:half], memory[half:]
	blocks := half / memoryBlock
	at := int(int64(step) * n % int64(blocks))
	for range n {
		copy(to[at*memoryBlock:(at+1)*memoryBlock], from[at*memoryBlock:])
		if at++; at == blocks {
			at = 0
		}
	}
	return float64(to[0])
}
