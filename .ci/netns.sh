#!/usr/bin/env bash
# SPDX-FileCopyrightText: The weft authors
# SPDX-License-Identifier: Apache-2.0
#
# Simulates two machines: two network namespaces connected by a cable, each with its own processes,
# shared memory, /tmp and /dev/shm. Heat runs on both, over TCP, and its result must equal a
# sequential sweep. Then one machine dies, and the other must notice.
#
#   .ci/netns.sh           needs root, iproute2 and util-linux; without them it is skipped, and succeeds
#   .ci/netns.sh --vanish  also disconnects the cable: 15 seconds more
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
	echo "skipped: $*"
	exit 0
}
[ "$(uname)" = Linux ] || skip "network namespaces need Linux"
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
for tool in ip unshare mount; do
	command -v "$tool" >/dev/null || skip "$tool is missing (iproute2, util-linux)"
done

tmp="$(mktemp -d)"
a="weft-a-$$" b="weft-b-$$"
clean_up() {
	for ns in "$a" "$b"; do
		ip netns pids "$ns" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
		ip netns del "$ns" 2>/dev/null || true
	done
	wait 2>/dev/null || true
	rm -rf "$tmp"
}
trap clean_up EXIT

{ ip netns add "$a" && ip netns add "$b" && ip -n "$a" link add cable type veth peer name cable netns "$b"; } 2>"$tmp/why" ||
	skip "no namespaces here: $(cat "$tmp/why")"
unshare -m -i -p -f true 2>"$tmp/why" || skip "no namespaces here: $(cat "$tmp/why")"
for ns in "$a" "$b"; do
	ip -n "$ns" link set lo up
	ip -n "$ns" link set cable up
done
ip -n "$a" addr add 10.213.77.1/30 dev cable
ip -n "$b" addr add 10.213.77.2/30 dev cable

mkdir "$tmp/$a" "$tmp/$b"
CGO_ENABLED=0 go build -o "$tmp/$a/weft" ./cmd/weft
CGO_ENABLED=0 go build -o "$tmp/$a/heat" ./examples/heat
cp "$tmp/$a/weft" "$tmp/$a/heat" "$tmp/$b/"

# on NS COMMAND: runs a command on a machine, in a directory with the two programs. The command sees
# no other temporary files.
on() {
	local ns="$1"
	shift
	ip netns exec "$ns" env -u XDG_RUNTIME_DIR -u TMPDIR unshare -m -i -u -p -f --kill-child --mount-proc bash -ec '
		mount --make-rprivate /
		mount --bind "$0" /mnt
		mount -t tmpfs none /tmp
		mount -t tmpfs none /dev/shm
		cd /mnt
		exec "$@"' "$tmp/$ns" "$@"
}

# both TAG ARGUMENT...: starts heat with two ranks on each machine, in the background. $one and $two
# are the process numbers of the launchers.
both() {
	local tag="$1"
	shift
	rm -f "$tmp/$a/secret"
	PSP_HISTOGRAM=1 PSP_HISTOGRAM_CONTYPE=tcp on "$a" ./weft run -listen 10.213.77.1:7000 -elsewhere 2 -secret-file secret -n 2 ./heat -ranks 4 -nam-freq 0 "$@" \
		>"$tmp/$tag.a" 2>&1 &
	one=$!
	for _ in $(seq 200); do
		[ -s "$tmp/$a/secret" ] && break
		sleep 0.05
	done
	cp -p "$tmp/$a/secret" "$tmp/$b/secret" # as a user copies it
	PSP_HISTOGRAM=1 PSP_HISTOGRAM_CONTYPE=tcp on "$b" ./weft run -join 10.213.77.1:7000 -secret-file secret -n 2 ./heat -ranks 4 -nam-freq 0 "$@" \
		>"$tmp/$tag.b" 2>&1 &
	two=$!
}

# ended PID: waits for a launcher, for a minute at most, and returns its status.
ended() {
	for _ in $(seq 600); do
		kill -0 "$1" 2>/dev/null || break
		sleep 0.1
	done
	if kill -0 "$1" 2>/dev/null; then
		echo "a launcher has not ended after a minute"
		return 99
	fi
	wait "$1"
}

fail() {
	echo "$*"
	tail -n 20 "$tmp"/*.a "$tmp"/*.b
	exit 1
}

both run -size 256 -bs 32 -timesteps 400 -check
ended "$one" || fail "the listening launcher failed: status $?"
ended "$two" || fail "the joining launcher failed: status $?"
grep -q 'check passed' "$tmp/run.a" || fail "the check did not pass"
echo "heat is correct on two machines; messages over TCP, by the histogram of rank 0:"
grep -A 21 'freq (tcp)' "$tmp/run.a" || fail "no histogram"
awk '/freq \(tcp\)/ { on = 1; next } on { sum += $2 } END { exit sum == 0 }' "$tmp/run.a" || fail "no message was sent over TCP"

# dies TAG LIMIT COMMAND...: heat runs for long, then the command removes machine B. Machine A must
# end with a failure within LIMIT seconds.
dies() {
	local tag="$1" limit="$2"
	shift 2
	both "$tag" -size 256 -bs 32 -timesteps 100000000
	sleep 2
	kill -0 "$one" "$two" || fail "heat ended too early"
	local began="$SECONDS" status=0
	"$@"
	ended "$one" || status=$?
	[ "$status" != 0 ] && [ "$status" != 99 ] || fail "machine A: status $status"
	[ "$((SECONDS - began))" -le "$limit" ] || fail "machine A took $((SECONDS - began)) s to notice"
	echo "$tag: machine A noticed in $((SECONDS - began)) s: $(grep -m 1 'weft run: rank' "$tmp/$tag.a")"
}

# Processes may end while they are listed; ignore errors.
kill_b() { ip netns pids "$b" | xargs -r kill -9 2>/dev/null || true; }
pull_cable() { ip -n "$b" link set cable down; }

dies killed 10 kill_b
if [ "${1:-}" = --vanish ]; then
	dies vanished 14 pull_cable
fi
