// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package bind

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// machine has the files of a machine: for each processor its package, its node and the threads of
// its core.
func machine(threads func(cpu int) (pkg, node int, siblings string), cpus int) fstest.MapFS {
	m := fstest.MapFS{}
	put := func(name, text string) { m[name] = &fstest.MapFile{Data: []byte(text + "\n")} }
	nodes := map[int][]string{}
	for cpu := range cpus {
		pkg, node, siblings := threads(cpu)
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", cpu)
		put(dir+"physical_package_id", fmt.Sprint(pkg))
		put(dir+"core_cpus_list", siblings)
		nodes[node] = append(nodes[node], fmt.Sprint(cpu))
	}
	for n, list := range nodes {
		put(fmt.Sprintf("sys/devices/system/node/node%d/cpulist", n), strings.Join(list, ","))
	}
	return m
}

func upTo(n int) (s Set) {
	for i := range n {
		s = append(s, i)
	}
	return s
}

var (
	plain8 = func(cpu int) (int, int, string) { return 0, 0, fmt.Sprint(cpu) }
	// The numbering of most machines: the second threads of all cores follow the first threads.
	smt8 = func(cpu int) (int, int, string) { return 0, 0, fmt.Sprintf("%d,%d", cpu%4, cpu%4+4) }
	// Two packages whose processors alternate.
	woven8 = func(cpu int) (int, int, string) { return cpu % 2, cpu % 2, fmt.Sprint(cpu) }
)

func TestAuto(t *testing.T) {
	for name, row := range map[string]struct {
		threads func(int) (int, int, string)
		allowed Set
		ranks   int
		want    string
	}{
		"equal parts":               {plain8, upTo(8), 2, "0-3 4-7"},
		"one each":                  {plain8, upTo(4), 4, "0 1 2 3"},
		"the first get more":        {plain8, upTo(8), 3, "0-2 3-5 6-7"},
		"too many ranks":            {plain8, upTo(8), 9, ""},
		"one rank has all":          {plain8, upTo(8), 1, ""},
		"a part of the machine":     {plain8, Set{1, 3, 5, 7}, 2, "1,3 5,7"},
		"cores with their threads":  {smt8, upTo(8), 2, "0-1,4-5 2-3,6-7"},
		"a core each":               {smt8, upTo(8), 4, "0,4 1,5 2,6 3,7"},
		"threads when cores end":    {smt8, upTo(8), 8, "0 4 1 5 2 6 3 7"},
		"threads, uneven":           {smt8, upTo(8), 5, "0,4 1,5 2,6 3 7"},
		"cores of which one thread": {smt8, Set{0, 1, 6}, 3, "0 1 6"},
		"packages":                  {woven8, upTo(8), 2, "0,2,4,6 1,3,5,7"},
	} {
		m := Read(machine(row.threads, 8), row.allowed)
		sets, why, err := Policy{}.Divide(m, row.ranks)
		require.NoError(t, err, name)
		require.Equal(t, row.want, strings.Trim(fmt.Sprint(sets), "[]"), name)
		require.Equal(t, row.want == "" && row.ranks > 1, why != "", name)
	}
	// A machine without files.
	sets, _, err := Policy{}.Divide(Read(fstest.MapFS{}, upTo(4)), 2)
	require.NoError(t, err)
	require.Equal(t, []Set{{0, 1}, {2, 3}}, sets)
}

// Ranks are not bound if the control group does not allow a processor's time for each.
func TestQuota(t *testing.T) {
	for name, row := range map[string]struct {
		files map[string]string
		want  float64
	}{
		"none":           {nil, 0},
		"no limit":       {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 0},
		"limit":          {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "250000 100000\n"}, 2.5},
		"limit above":    {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "400000 100000\n", "sys/fs/cgroup/a/cpu.max": "100000 50000\n"}, 2},
		"in a container": {map[string]string{"proc/self/cgroup": "0::/../x\n", "sys/fs/cgroup/cpu.max": "300000 100000\n"}, 3},
		"version 1": {map[string]string{"proc/self/cgroup": "4:cpu,cpuacct:/g\n3:cpuset:/\n",
			"sys/fs/cgroup/cpu,cpuacct/g/cpu.cfs_quota_us": "150000\n", "sys/fs/cgroup/cpu,cpuacct/g/cpu.cfs_period_us": "100000\n"}, 1.5},
		"version 1, none": {map[string]string{"proc/self/cgroup": "4:cpu:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 0},
		"nonsense":        {map[string]string{"proc/self/cgroup": "0:/\n1:cpu\n\n0::/\n", "sys/fs/cgroup/cpu.max": "x y\n"}, 0},
	} {
		root := machine(plain8, 8)
		for f, text := range row.files {
			root[f] = &fstest.MapFile{Data: []byte(text)}
		}
		m := Read(root, upTo(8))
		require.Equal(t, row.want, m.Quota, name)
		if row.want > 0 {
			sets, _, err := Policy{}.Divide(m, int(row.want))
			require.NoError(t, err)
			require.Equal(t, int(row.want) > 1, sets != nil, name)
			sets, why, err := Policy{}.Divide(m, int(row.want)+1)
			require.NoError(t, err)
			require.Nil(t, sets, name)
			require.Contains(t, why, "have the time of")
		}
	}
}

func TestPolicies(t *testing.T) {
	m := Read(machine(smt8, 8), Set{0, 1, 2, 4, 5, 6})
	for text, want := range map[string]string{
		"none":      "[]",
		"core":      "[0,4 1,5]",
		"0,1":       "[0 1]",
		"1,0,6":     "[1 0]",
		"0-2,4-6":   "[0-2 4-6]",
		"4+0,1+5-6": "[0,4 1,5-6]",
		"0+0-1,1":   "[0-1 1]",
		"auto":      "[0-1,4-5 2,6]",
	} {
		p, err := Parse(text)
		require.NoError(t, err, text)
		sets, _, err := p.Divide(m, 2)
		require.NoError(t, err, text)
		require.Equal(t, want, fmt.Sprint(sets), text)
	}
	for text, want := range map[string]string{
		"":        `"" is not a processor`,
		"cores":   `legal are auto, none, core, or sets of processors`,
		"0,":      `"" is not a processor`,
		"3-1":     `"3-1" is not a processor, such as 3, nor a range`,
		"-1":      `is not a processor`,
		"0+":      `is not a processor`,
		"0-70000": "they are 0 to 65535",
		"0-2-3":   "is not a processor",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, want, text)
	}
	for text, want := range map[string]string{
		"core":    "4 ranks, and 3 cores that this launcher may use",
		"0,1":     "there are 2 sets for 4 ranks",
		"0,1,2,3": "set 3 has processor 3; this launcher may use 0-2,4-6",
	} {
		p, err := Parse(text)
		require.NoError(t, err)
		_, _, err = p.Divide(m, 4)
		require.ErrorContains(t, err, want)
	}
}

func TestSets(t *testing.T) {
	for _, text := range []string{"0", "0-1", "0,2", "0-3,8,10-11"} {
		s, err := ParseSet(text)
		require.NoError(t, err)
		require.Equal(t, text, s.String())
	}
}

// On the machine of the test: a process gets the processors of the thread that starts it, and the
// thread gets its own back.
func TestThread(t *testing.T) {
	if !Supported {
		_, err := Here()
		require.ErrorIs(t, err, ErrUnsupported)
		return
	}
	if os.Getenv("BIND_TEST") != "" {
		s, err := Allowed()
		require.NoError(t, err)
		fmt.Printf("has %v, %d\n", s, runtime.NumCPU())
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m, err := Here()
	require.NoError(t, err)
	require.NotEmpty(t, m.Processors)
	all := setOf(m.Processors)
	for _, cpu := range all[:min(len(all), 8)] { // enough, on a large machine
		restore, err := Thread(Set{cpu})
		require.NoError(t, err)
		cmd := exec.Command(os.Args[0], "-test.run=^TestThread$", "-test.v")
		cmd.Env = append(os.Environ(), "BIND_TEST=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), fmt.Sprintf("has %d, 1\n", cpu))
		require.NoError(t, restore())
		now, err := Allowed()
		require.NoError(t, err)
		require.Equal(t, all, now)
	}
	_, err = Thread(nil)
	require.Error(t, err)
}

// Policies, sets and machines at their bounds, and unusual files of a machine.
func TestPoliciesAtTheEdges(t *testing.T) {
	for text, want := range map[string][2]bool{"auto": {true, false}, "none": {false, true}, "core": {false, false}, "0": {false, false}} {
		p, err := Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, [2]bool{p.Auto(), p.None()}, text)
	}
	require.True(t, Policy{}.Auto())
	m := Read(machine(smt8, 8), upTo(8))
	for _, row := range []struct {
		policy string
		ranks  int
		want   string // or a part of the error
	}{
		{"core", 1, "[0,4]"}, {"core", 4, "[0,4 1,5 2,6 3,7]"}, {"core", 5, "5 ranks, and 4 cores that this launcher may use"},
		{"0,7", 1, "[0]"}, {"0,7", 2, "[0 7]"}, {"0,7", 3, "there are 2 sets for 3 ranks; a set for each is needed"}, {"0,8", 1, "set 1 has processor 8; this launcher may use 0-7"},
		{"auto", 7, "[0,4 1 5 2 6 3 7]"}, {"auto", 8, "[0 4 1 5 2 6 3 7]"}, {"auto", 9, "[]"}, {"none", 9, "[]"}, {"auto", 3, "[0-1,4-5 2,6 3,7]"},
	} {
		p, err := Parse(row.policy)
		require.NoError(t, err)
		sets, why, err := p.Divide(m, row.ranks)
		if err != nil {
			require.EqualError(t, err, row.want)
			require.Nil(t, sets)
			require.Empty(t, why)
			continue
		}
		require.Equal(t, row.want, fmt.Sprint(sets), row)
		require.Equal(t, map[bool]string{true: "9 ranks share 8 processors"}[row.policy == "auto" && row.ranks == 9], why)
	}
	m.Quota = 2.5
	for ranks, want := range map[int]string{1: "", 2: "", 3: "3 ranks have the time of 2.5 processors"} {
		sets, why, err := Policy{}.Divide(m, ranks)
		require.NoError(t, err)
		require.Equal(t, want, why)
		require.Equal(t, ranks == 2, sets != nil)
	}
	m.Quota = 8
	require.Equal(t, 8, m.capacity())
	m.Quota = 9
	require.Equal(t, 8, m.capacity())
	_, why, err := Policy{}.Divide(m, 9)
	require.NoError(t, err)
	require.Equal(t, "9 ranks share 8 processors", why)

	for text, want := range map[string]string{"65535": "65535", "65536": "", "0-65535": "0-65535", "2-2": "2", "3-2": "", "2-": "", "-2": "", "+2": "", " 2": "", "1,1,0-1": "0-1", "5,4,3,1": "1,3-5", "0,2-3,5": "0,2-3,5", "": ""} {
		s, err := ParseSet(text)
		if want == "" {
			require.ErrorContains(t, err, "is not a processor, such as 3, nor a range of them, such as 0-3; they are 0 to 65535", text)
			require.Nil(t, s)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, s.String())
	}
	require.Empty(t, Set{}.String())
	_, err = Parse("0,x")
	require.EqualError(t, err, "legal are "+Legal+`; "x" is not a processor, such as 3, nor a range of them, such as 0-3; they are 0 to 65535`)
}

// Each file of a machine counts, or is ignored, independently of the others.
func TestFilesOfAMachine(t *testing.T) {
	const topology = "sys/devices/system/cpu/cpu1/topology/"
	for _, row := range []struct {
		files map[string]string
		want  Processor // of processor 1
	}{
		{nil, Processor{ID: 1, Core: 1}},
		{map[string]string{topology + "core_cpus_list": "0-1\n"}, Processor{ID: 1, Core: 0}},
		{map[string]string{topology + "core_cpus_list": "1,0", topology + "thread_siblings_list": "1"}, Processor{ID: 1, Core: 0}},
		{map[string]string{topology + "thread_siblings_list": "0,1"}, Processor{ID: 1, Core: 0}},
		{map[string]string{topology + "core_cpus_list": "x"}, Processor{ID: 1, Core: 1}},
		{map[string]string{topology + "physical_package_id": "3\n"}, Processor{ID: 1, Core: 1, Package: 3}},
		{map[string]string{topology + "physical_package_id": "x"}, Processor{ID: 1, Core: 1}},
		{map[string]string{"sys/devices/system/node/node2/cpulist": "1-2\n"}, Processor{ID: 1, Core: 1, Node: 2}},
		{map[string]string{"sys/devices/system/node/node2/cpulist": "0\n"}, Processor{ID: 1, Core: 1}},
		{map[string]string{"sys/devices/system/node/node2x/cpulist": "1\n"}, Processor{ID: 1, Core: 1}},
		{map[string]string{"sys/devices/system/node/node2/cpulist": "1,\n"}, Processor{ID: 1, Core: 1}},
	} {
		root := fstest.MapFS{}
		for f, text := range row.files {
			root[f] = &fstest.MapFile{Data: []byte(text)}
		}
		m := Read(root, Set{1})
		require.Equal(t, []Processor{row.want}, m.Processors, row.files)
		require.Zero(t, m.Quota)
	}
	// Neighbours are near each other: by package, then node, then core.
	order := func(of func(cpu int) (int, int, string)) (ids []int) {
		for _, p := range Read(machine(of, 8), upTo(8)).Processors {
			ids = append(ids, p.ID)
		}
		return ids
	}
	require.Equal(t, []int{0, 4, 1, 5, 2, 6, 3, 7}, order(smt8))
	require.Equal(t, []int{0, 2, 4, 6, 1, 3, 5, 7}, order(woven8))
	require.Equal(t, []int{4, 5, 6, 7, 0, 1, 2, 3}, order(func(cpu int) (int, int, string) { return 1 - cpu/4, cpu / 4, fmt.Sprint(cpu) }))
	require.Equal(t, []int{1, 3, 5, 7, 0, 2, 4, 6}, order(func(cpu int) (int, int, string) { return 0, 1 - cpu%2, fmt.Sprintf("%d-%d", cpu/2*2, cpu/2*2+1) }))
	require.Equal(t, []int{7, 6, 5, 4, 3, 2, 1, 0}, order(func(cpu int) (int, int, string) { return 7 - cpu, 0, "0-7" }))
}

// Limits on processor time: the smallest limit of the group and of all groups above it counts.
func TestLimitsOfGroups(t *testing.T) {
	const v1 = "sys/fs/cgroup/cpu/"
	for _, row := range []struct {
		group string
		files map[string]string
		want  float64
	}{
		{"0::/a", map[string]string{"sys/fs/cgroup/a/cpu.max": "1 100000"}, 0.00001},
		{"0::/a", map[string]string{"sys/fs/cgroup/a/cpu.max": "0 100000"}, 0},
		{"0::/a", map[string]string{"sys/fs/cgroup/a/cpu.max": "-1 100000"}, 0},
		{"0::/a", map[string]string{"sys/fs/cgroup/a/cpu.max": "100000 0"}, 0},
		{"0::/a", map[string]string{"sys/fs/cgroup/a/cpu.max": "100000 x"}, 0},
		{"0::/a", map[string]string{"sys/fs/cgroup/a/cpu.max": "100000 -1"}, 0},
		{"0::/a", map[string]string{"sys/fs/cgroup/a/cpu.max": "100000"}, 0},
		{"0::/a/b", map[string]string{"sys/fs/cgroup/a/b/cpu.max": "3 1", "sys/fs/cgroup/a/cpu.max": "max 1", "sys/fs/cgroup/cpu.max": "2 1"}, 2},
		{"0::/a/b", map[string]string{"sys/fs/cgroup/a/b/cpu.max": "2 1", "sys/fs/cgroup/a/cpu.max": "3 1"}, 2},
		{"0::/a", map[string]string{"sys/fs/cgroup/b/cpu.max": "2 1"}, 0},
		{"1:cpu:/a", map[string]string{"sys/fs/cgroup/a/cpu.max": "2 1"}, 0},
		{"1:cpu:/a", map[string]string{v1 + "a/cpu.cfs_quota_us": "2", v1 + "a/cpu.cfs_period_us": "1"}, 2},
		{"1:cpuacct,cpu:/a", map[string]string{v1 + "a/cpu.cfs_quota_us": "2", v1 + "a/cpu.cfs_period_us": "1"}, 2},
		{"1:cpuset:/a", map[string]string{v1 + "a/cpu.cfs_quota_us": "2", v1 + "a/cpu.cfs_period_us": "1"}, 0},
		{"1:cpu:/a/b", map[string]string{v1 + "cpu.cfs_quota_us": "2", v1 + "cpu.cfs_period_us": "1", v1 + "a/cpu.cfs_quota_us": "3", v1 + "a/cpu.cfs_period_us": "1"}, 2},
		{"x\n0:\n0::/a", map[string]string{"sys/fs/cgroup/a/cpu.max": "2 1"}, 2},
		{"0::/a:b", map[string]string{"sys/fs/cgroup/a:b/cpu.max": "2 1"}, 2},
	} {
		root := fstest.MapFS{"proc/self/cgroup": {Data: []byte(row.group + "\n")}}
		for f, text := range row.files {
			root[f] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
		require.Equal(t, row.want, quota(root), "%s %v", row.group, row.files)
	}
}
