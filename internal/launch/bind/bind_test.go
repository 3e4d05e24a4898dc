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

// machine is the files of a machine: for each processor its package, node and core's threads.
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
	// As most machines number them: the second threads of all cores come after the first ones.
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
	// Nothing is known of the machine.
	sets, _, err := Policy{}.Divide(Read(fstest.MapFS{}, upTo(4)), 2)
	require.NoError(t, err)
	require.Equal(t, []Set{{0, 1}, {2, 3}}, sets)
}

// What the time of the control group does not suffice for is left alone.
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

// The machine that this runs on: a process has the processors of the thread that starts it, and the thread gets its own back.
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
