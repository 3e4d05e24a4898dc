// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tasks

import "weft/bench/internal/harness"

// Shape of the readers workload.
const (
	readerObjects = 64
	readersEach   = 8 // readers after each writer
)

// readers has, for each round and object, one writer (inout) and then eight readers (in). The
// writer makes the next version. A reader counts its own rounds and compares the object's version
// with them, so it notices if it ran before its writer or at the same time as the next writer.
type readers struct {
	objects []cell
	counts  [][readersEach]cell // of each reader, each in a cache line of its own
	write   []func()
	read    [][readersEach]func()
	rounds  int
}

func newReaders(size int64) *readers {
	p := &readers{
		objects: make([]cell, readerObjects),
		counts:  make([][readersEach]cell, readerObjects),
		write:   make([]func(), readerObjects),
		read:    make([][readersEach]func(), readerObjects),
		rounds:  max(1, int(size)/(readerObjects*(1+readersEach))),
	}
	for o := range p.objects {
		object := &p.objects[o]
		p.write[o] = func() { object.version++ }
		for r := range readersEach {
			count := &p.counts[o][r]
			p.read[o][r] = func() {
				count.version++
				if object.version != count.version {
					count.bad++
				}
			}
		}
	}
	return p
}

func (p *readers) tasks() int64 { return int64(p.rounds * readerObjects * (1 + readersEach)) }

func (p *readers) reset() {
	clear(p.objects)
	clear(p.counts)
}

func (p *readers) check() error {
	for o := range p.objects {
		if v := p.objects[o].version; v != int64(p.rounds) {
			return harness.Wrong("object %d has version %d after %d writers", o, v, p.rounds)
		}
		for r, c := range p.counts[o] {
			if c.version != int64(p.rounds) || c.bad != 0 {
				return harness.Wrong("reader %d of object %d ran %d of %d times and saw %d wrong versions", r, o, c.version, p.rounds, c.bad)
			}
		}
	}
	return nil
}

func (p *readers) sequential() {
	for range p.rounds {
		for o := range p.objects {
			p.write[o]()
			for _, read := range p.read[o] {
				read()
			}
		}
	}
}

func (p *readers) channels() {
	last := make([][readersEach]done, readerObjects)
	for range p.rounds {
		for o := range p.objects {
			before, written, body := last[o], make(done), p.write[o]
			go func() {
				for _, d := range before {
					d.wait()
				}
				body()
				close(written)
			}()
			for r, body := range p.read[o] {
				mine := make(done)
				go func() {
					written.wait()
					body()
					close(mine)
				}()
				last[o][r] = mine
			}
		}
	}
	for o := range last {
		for _, d := range last[o] {
			d.wait()
		}
	}
}
