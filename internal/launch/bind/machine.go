// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package bind

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// ErrUnsupported: processes cannot be bound here.
var ErrUnsupported = errors.New("this platform has no processes that are bound to processors")

// Processor is one that the kernel runs threads on: a core, or a hardware thread of one.
type Processor struct {
	ID      int
	Core    int // the first processor of its core
	Node    int // of memory
	Package int
}

// Machine is what a process may use.
type Machine struct {
	Processors []Processor // those of the affinity mask, neighbours near each other
	Quota      float64     // processors' worth of time by the control group; 0: no limit
}

// Read returns the machine of which root is the root of the file system; tests have their own.
// allowed are the processors of the affinity mask. What the files do not say is taken to be simple:
// one core per processor, one node, one package.
func Read(root fs.FS, allowed []int) *Machine {
	m := &Machine{Quota: quota(root)}
	nodes := map[int]int{}
	dirs, _ := fs.Glob(root, "sys/devices/system/node/node[0-9]*")
	for _, d := range dirs {
		n, err := strconv.Atoi(strings.TrimPrefix(path.Base(d), "node"))
		list, err2 := ParseSet(text(root, path.Join(d, "cpulist")))
		if err == nil && err2 == nil {
			for _, cpu := range list {
				nodes[cpu] = n
			}
		}
	}
	for _, cpu := range allowed {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology", cpu)
		p := Processor{ID: cpu, Core: cpu, Node: nodes[cpu]}
		siblings := text(root, path.Join(dir, "core_cpus_list"))
		if siblings == "" {
			siblings = text(root, path.Join(dir, "thread_siblings_list")) // before Linux 5.3
		}
		if list, err := ParseSet(siblings); err == nil {
			p.Core = slices.Min(list)
		}
		if n, err := strconv.Atoi(text(root, path.Join(dir, "physical_package_id"))); err == nil {
			p.Package = n
		}
		m.Processors = append(m.Processors, p)
	}
	slices.SortFunc(m.Processors, func(a, b Processor) int {
		return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Core, b.Core), cmp.Compare(a.ID, b.ID))
	})
	return m
}

// room is how many ranks can have processors of their own.
func (m *Machine) room() int {
	n := len(m.Processors)
	if m.Quota > 0 {
		n = min(n, int(m.Quota))
	}
	return n
}

// cores returns the processors by core, in their order.
func (m *Machine) cores() (list [][]Processor) {
	for i, p := range m.Processors {
		if i == 0 || p.Core != m.Processors[i-1].Core {
			list = append(list, nil)
		}
		list[len(list)-1] = append(list[len(list)-1], p)
	}
	return list
}

func text(root fs.FS, name string) string {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// quota returns the least limit on processor time of the control groups that this process is in, in
// processors; 0 if there is none.
func quota(root fs.FS) float64 {
	least := math.Inf(1)
	limit := func(used, per string) {
		q, err := strconv.ParseFloat(used, 64) // "max" and -1 are no limit
		p, err2 := strconv.ParseFloat(per, 64)
		if err == nil && err2 == nil && q > 0 && p > 0 {
			least = min(least, q/p)
		}
	}
	for line := range strings.Lines(text(root, "proc/self/cgroup")) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		// A limit holds for what is below. In a container, the path may be that outside of it, of
		// which only the end is there, or nothing.
		for dir := path.Clean("/" + f[2]); ; dir = path.Dir(dir) {
			switch {
			case f[1] == "":
				if q, p, ok := strings.Cut(text(root, path.Join("sys/fs/cgroup", dir, "cpu.max")), " "); ok {
					limit(q, p)
				}
			case slices.Contains(strings.Split(f[1], ","), "cpu"):
				for _, mount := range []string{"cpu", f[1]} {
					d := path.Join("sys/fs/cgroup", mount, dir)
					limit(text(root, path.Join(d, "cpu.cfs_quota_us")), text(root, path.Join(d, "cpu.cfs_period_us")))
				}
			}
			if dir == "/" {
				break
			}
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

func setOf(ps ...[]Processor) (s Set) {
	for _, p := range slices.Concat(ps...) {
		s = append(s, p.ID)
	}
	slices.Sort(s)
	return s
}

// maxProcessor bounds numbers of processors. It guards against misprints.
const maxProcessor = 1<<16 - 1

// Set is numbers of processors, each once, in their order.
type Set []int

// String returns the set as the kernel writes it: 0-3,8.
func (s Set) String() string {
	var b strings.Builder
	for i := 0; i < len(s); {
		j := i
		for j+1 < len(s) && s[j+1] == s[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(s[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(s[j]))
		}
		i = j + 1
	}
	return b.String()
}

// ParseSet reads what String writes.
func ParseSet(text string) (Set, error) { return parseSet(text, ",") }

func parseSet(text, separator string) (Set, error) {
	var s Set
	for part := range strings.SplitSeq(text, separator) {
		low, high, isRange := strings.Cut(part, "-")
		first, err := strconv.ParseUint(low, 10, 16)
		last := first
		if err == nil && isRange {
			last, err = strconv.ParseUint(high, 10, 16)
		}
		if err != nil || last < first {
			return nil, fmt.Errorf("%q is not a processor, such as 3, nor a range of them, such as 0-3; they are 0 to %d", part, maxProcessor)
		}
		for cpu := first; cpu <= last; cpu++ {
			s = append(s, int(cpu))
		}
	}
	slices.Sort(s)
	return slices.Compact(s), nil
}
