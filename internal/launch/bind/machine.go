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

// Processor is a processor of the kernel's: a core, or a hardware thread of a core.
type Processor struct {
	ID      int
	Core    int // the number of the first processor of its core
	Node    int // of memory
	Package int
}

// Machine has the processors that a process may use.
type Machine struct {
	Processors []Processor // of the affinity mask, sorted by package, node, core and number
	// limit of the control group on processor time, in processors; 0: no limit
	Quota float64
}

// Read returns the machine described by the files under root, the root of a file system; tests have
// their own. allowed are the processors of the affinity mask. Where files are missing, Read assumes
// one processor per core, one node and one package.
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

// capacity returns how many ranks can each have at least one processor that no other rank has.
func (m *Machine) capacity() int {
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

// quota returns the smallest limit on processor time of the control groups that contain this
// process, in processors; 0 if there is no limit.
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
		// A group's limit holds for the groups below it. In a container, the path may be the one
		// outside of the container, of which only the end exists inside, or nothing.
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

// maxProcessor bounds numbers of processors. It guards against typing errors.
const maxProcessor = 1<<16 - 1

// Set has the numbers of some processors, sorted, each once.
type Set []int

// String returns the set in the kernel's notation: 0-3,8.
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

// ParseSet parses the notation of String.
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
