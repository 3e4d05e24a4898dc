#!/usr/bin/env bash
# SPDX-FileCopyrightText: The weft authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs heat under srun. The script starts Slurm on this machine, and ends its daemons. Processes
# that srun starts without PMI must soon fail with a message, and every way that the message names
# must work.
#
#   .ci/slurm.sh    needs root, Slurm and munge; without them it is skipped, and succeeds
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
	echo "skipped: $*"
	exit 0
}
[ "$(uname)" = Linux ] || skip "Slurm needs Linux"
[ "$(id -u)" = 0 ] || skip "slurmd needs root"
for tool in slurmctld slurmd srun salloc munged; do
	command -v "$tool" >/dev/null || skip "$tool is missing (slurmctld, slurmd, slurm-client, munge)"
done

tmp="$(mktemp -d)"
clean_up() {
	local pids
	pids="$(cat "$tmp"/*.pid 2>/dev/null || true)"
	# The daemons write files until they end, and slurmd waits for its steps: wait for both.
	for _ in $(seq 100); do
		kill $pids 2>/dev/null || break
		sleep 0.1
	done
	kill -9 $pids 2>/dev/null || true
	rm -rf "$tmp"
}
trap clean_up EXIT

host="$(uname -n)"
export SLURM_CONF="$tmp/slurm.conf"
cat >"$SLURM_CONF" <<EOF
ClusterName=weft
SlurmctldHost=${host%%.*}(127.0.0.1)
SlurmctldPort=26817
SlurmdPort=26818
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$tmp/munge.sock
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
StateSaveLocation=$tmp
SlurmdSpoolDir=$tmp
SlurmctldPidFile=$tmp/slurmctld.pid
SlurmdPidFile=$tmp/slurmd.pid
SlurmctldLogFile=$tmp/slurmctld.log
SlurmdLogFile=$tmp/slurmd.log
NodeName=${host%%.*} NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
EOF
chmod 755 "$tmp"
head -c 1024 /dev/urandom >"$tmp/munge.key"
chmod 400 "$tmp/munge.key"
{ munged --force --key-file="$tmp/munge.key" --socket="$tmp/munge.sock" --pid-file="$tmp/munged.pid" \
	--log-file="$tmp/munged.log" --seed-file="$tmp/munge.seed" && slurmctld && slurmd; } 2>"$tmp/why" ||
	skip "no Slurm here: $(tail -n 3 "$tmp/why")"
up=""
for _ in $(seq 100); do
	[ "$(timeout 5 sinfo -h -o %t 2>/dev/null)" = idle ] && up=1 && break
	sleep 0.2
done
[ -n "$up" ] || skip "Slurm does not start: $(tail -n 3 "$tmp"/*.log)"

CGO_ENABLED=0 go build -o "$tmp/weft" ./cmd/weft
CGO_ENABLED=0 go build -o "$tmp/heat" ./examples/heat
cd "$tmp"
run=(-size 128 -bs 32 -timesteps 20 -nam-freq 0)

fail() {
	echo "$*"
	cat out
	exit 1
}

# under COMMAND...: runs a command under Slurm, with its output in the file out.
under() { timeout -k 5 60 "$@" >out 2>&1; }

began="$SECONDS"
! under srun --overcommit -n 4 ./heat "${run[@]}" || fail "four processes without PMI do not fail"
[ "$((SECONDS - began))" -le 10 ] || fail "they took $((SECONDS - began)) s to fail"
[ "$(grep -c 'srun has started 4 of this program' out)" -ge 1 ] || fail "they do not print the reason"
! grep -q Mupdates out || fail "one of them has run the whole job"

# jobs N RANKS WHAT COMMAND...: requires that N jobs of RANKS ranks run, and that their results
# equal a sequential sweep.
jobs() {
	local n="$1" ranks="$2" what="$3"
	shift 3
	under "$@" "${run[@]}" -check || fail "$what: status $?"
	[ "$(grep -c 'check passed' out)" = "$n" ] || fail "$what: not $n checks passed"
	[ "$(grep -c "ranks, $ranks," out)" = "$n" ] || fail "$what: not $n jobs of $ranks ranks"
	echo "ok: $what"
}

jobs 1 2 "srun -n 1, ranks as goroutines" srun -n 1 ./heat -ranks 2
jobs 1 4 "srun -n 1 weft run -n 4" srun -n 1 ./weft run -n 4 ./heat
jobs 2 2 "WEFT_MPI=0, each by itself" env WEFT_MPI=0 srun --overcommit -n 2 ./heat -ranks 2
jobs 1 2 "in an allocation of two tasks" salloc --overcommit -n 2 ./heat -ranks 2
for way in openmpi:pmix mpich:pmi2; do
	library="${way%:*}" pmi="${way#*:}"
	if ! command -v "mpicc.$library" >/dev/null || ! srun --mpi=list 2>&1 | grep -qw "$pmi"; then
		echo "not tested: $library under srun --mpi=$pmi (one of the two is missing)"
		continue
	fi
	(cd "$OLDPWD" && CGO_ENABLED=1 CC="mpicc.$library" go build -tags mpi -o "$tmp/heat-$library" ./examples/heat)
	jobs 1 2 "$library under srun --mpi=$pmi" srun --overcommit --mpi="$pmi" -n 2 "./heat-$library"
done
