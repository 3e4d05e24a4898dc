// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package imb

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weft/bench/internal/harness"
	"weft/comm"
)

// Peers lists all ways of running ranks, ours first.
func Peers() []Peer {
	return []Peer{
		{Name: "weft-inproc", Class: "shm", Ours: true},
		{Name: "weft-shm", Class: "shm", Ours: true, start: processes("shm")},
		{Name: "weft-tcp", Class: "tcp", Ours: true, start: processes("tcp")},
		{Name: "weft-mpi-openmpi", Class: "mpi", Ours: true, start: openMPI.overMPI},
		{Name: "weft-mpi-mpich", Class: "mpi", Ours: true, start: mpich.overMPI},
		{Name: "openmpi-shm", Class: "shm", start: openMPI.program("--mca", "pml", "ob1", "--mca", "btl", "self,vader")},
		{Name: "openmpi-tcp", Class: "tcp", start: openMPI.program("--mca", "pml", "ob1", "--mca", "btl", "self,tcp")},
		{Name: "mpich-shm", Class: "shm", start: mpich.program()},
		// MPICH over UCX needs both settings: MPICH must not use its own path between processes of
		// one node, and neither must UCX.
		{Name: "mpich-tcp", Class: "tcp", start: mpich.program("-genv", "MPIR_CVAR_NOLOCAL", "1", "-genv", "UCX_TLS", "tcp,self",
			"-genv", "FI_PROVIDER", "tcp")},
	}
}

// Fabrics lists the names of the peers of weft for -fabric.
func Fabrics() []string {
	var names []string
	for _, p := range Peers() {
		if p.Ours {
			names = append(names, strings.TrimPrefix(p.Name, "weft-"))
		}
	}
	return names
}

// processes starts ranks by weft run, over a fabric.
func processes(fabric string) func(ctx context.Context, r *Runner, n int, bench string, o *Options) (*exec.Cmd, error) {
	return func(ctx context.Context, r *Runner, n int, bench string, o *Options) (*exec.Cmd, error) {
		i := slices.IndexFunc(comm.Fabrics(), func(f comm.Fabric) bool { return f.Name == fabric })
		if i < 0 {
			return nil, harness.Skip("this build has no fabric %s", fabric)
		}
		if why := comm.Fabrics()[i].Problem; why != "" {
			return nil, harness.Skip("fabric %s: %s", fabric, why)
		}
		if err := sources(ctx); err != nil {
			return nil, err
		}
		launcher, err := r.build(ctx, "weft", func(path string) *exec.Cmd {
			return exec.CommandContext(ctx, "go", "build", "-o", path, "weft/cmd/weft")
		})
		if err != nil {
			return nil, err
		}
		args := append([]string{"run", "-n", strconv.Itoa(n)}, fabricOptions(fabric)...)
		return exec.CommandContext(ctx, launcher, append(append(args, r.Self...), arguments(bench, o)...)...), nil
	}
}

// library is an MPI library with its tools.
type library struct {
	name     string
	compiler string // the name in Debian and Ubuntu, where several libraries may be installed
	launcher string
	// text in the version of the launcher, which identifies it as mpirun
	says     string
	options  []string
	unbound  []string // further options for a program in Go, so that it has more than one processor
	env      []string
	packages string
}

var (
	openMPI = &library{name: "openmpi", compiler: "mpicc.openmpi", launcher: "mpirun.openmpi", says: "open-mpi.org",
		options: []string{"--oversubscribe"}, unbound: []string{"--bind-to", "none"}, packages: "openmpi-bin and libopenmpi-dev",
		env: []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}}
	mpich = &library{name: "mpich", compiler: "mpicc.mpich", launcher: "mpirun.mpich", says: "HYDRA", packages: "mpich and libmpich-dev"}
)

// tools returns the library's compiler and launcher.
func (l *library) tools(ctx context.Context) (compiler, launcher string, err error) {
	compiler, errC := exec.LookPath(l.compiler)
	launcher, errL := exec.LookPath(l.launcher)
	if errC == nil && errL == nil {
		return compiler, launcher, nil
	}
	compiler, errC = exec.LookPath("mpicc")
	launcher, errL = exec.LookPath("mpirun")
	if errC == nil && errL == nil {
		if out, _ := exec.CommandContext(ctx, launcher, "--version").CombinedOutput(); bytes.Contains(out, []byte(l.says)) {
			return compiler, launcher, nil
		}
	}
	return "", "", harness.Skip("no %s in PATH: install %s to compare with it", l.compiler, l.packages)
}

// run returns the command that starts n ranks of a program.
func (l *library) run(ctx context.Context, launcher string, n int, options []string, program ...string) *exec.Cmd {
	args := slices.Concat(l.options, options, []string{"-n", strconv.Itoa(n)}, program)
	cmd := exec.CommandContext(ctx, launcher, args...)
	cmd.Env = append(os.Environ(), l.env...)
	return cmd
}

// program starts the program in C.
func (l *library) program(options ...string) func(ctx context.Context, r *Runner, n int, bench string, o *Options) (*exec.Cmd, error) {
	return func(ctx context.Context, r *Runner, n int, bench string, o *Options) (*exec.Cmd, error) {
		compiler, launcher, err := l.tools(ctx)
		if err != nil {
			return nil, err
		}
		path, err := r.build(ctx, "imb-"+l.name, func(path string) *exec.Cmd {
			cmd := exec.CommandContext(ctx, compiler, "-O2", "-std=gnu11", "-x", "c", "-o", path, "-")
			cmd.Stdin = bytes.NewReader(r.Source)
			return cmd
		})
		if err != nil {
			return nil, err
		}
		return l.run(ctx, launcher, n, options, append([]string{path}, arguments(bench, o)...)...), nil
	}
}

// overMPI starts this program, built for the library.
func (l *library) overMPI(ctx context.Context, r *Runner, n int, bench string, o *Options) (*exec.Cmd, error) {
	compiler, launcher, err := l.tools(ctx)
	if err != nil {
		return nil, err
	}
	if err := sources(ctx); err != nil {
		return nil, err
	}
	path, err := r.build(ctx, "bench-"+l.name, func(path string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "go", "build", "-tags", "mpi", "-o", path, "weft/bench")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "CC="+compiler)
		return cmd
	})
	if err != nil {
		return nil, err
	}
	program := slices.Concat([]string{path}, r.Self[1:], arguments(bench, o))
	cmd := l.run(ctx, launcher, n, l.unbound, program...)
	cmd.Env = append(cmd.Env, "WEFT_FABRIC=mpi") // or ranks of one node would use shared memory
	return cmd, nil
}

// sources returns an error if the programs that start ranks cannot be built in this directory.
func sources(ctx context.Context) error {
	if out, err := exec.CommandContext(ctx, "go", "list", "weft/cmd/weft").CombinedOutput(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("the programs that start ranks are built from source, with the go command, in a directory of weft's repository: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// SelfPath returns the path of this program, for others to start.
func SelfPath() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("the path of this program: %w", err)
	}
	return filepath.EvalSymlinks(path)
}
