#!/bin/sh
# SPDX-FileCopyrightText: The weft authors
# SPDX-License-Identifier: Apache-2.0

# Makes the pictures of docs/profiling.md again: sh docs/pictures.sh, in the root of the repository.
# The pictures of the live page and of the profile need chromium; without it, the others are made.
set -eu
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/heat" ./examples/heat
images=docs/images

"$dir/heat" -size 1024 -bs 512 -timesteps 8 -nam-freq 0 -no-warmup -graph "$images/graph-large-blocks.svg"
"$dir/heat" -size 1024 -bs 256 -timesteps 2 -nam-freq 0 -no-warmup -graph "$images/graph-blocks.svg"
"$dir/heat" -size 1024 -bs 64 -timesteps 200 -nam-freq 0 -no-warmup -graph "$images/graph-folded.svg"

go build -o "$dir/weft" ./cmd/weft
"$dir/heat" -size 1024 -bs 256 -timesteps 60 -nam-freq 10 -nam-dir "$dir/nam" -gif "$dir/heat.gif" -no-warmup -ranks 2 -workers 2 \
	-trace "$dir/heat.weft"
"$dir/weft" trace picture --from -16ms --to -12ms -o "$images/timeline.svg" "$dir/heat.weft"

command -v chromium >/dev/null || exit 0
"$dir/heat" -size 1024 -bs 128 -timesteps 1000000 -nam-freq 0 -http 127.0.0.1:16060 &
heat=$!
"$dir/heat" -size 1024 -bs 512 -timesteps 60 -nam-freq 0 -no-warmup -taskprofile "$dir/tasks.pb.gz"
"$(go tool -n pprof)" -no_browser -http=127.0.0.1:16061 -sample_index=comm "$dir/tasks.pb.gz" &
pprof=$!
trap 'kill $heat $pprof; rm -rf "$dir"' EXIT
sleep 6
shot() {
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=3000 --window-size="$2" --screenshot="$images/$1" "$3"
}
shot live.png 1200,960 http://127.0.0.1:16060/
shot profile-flames.png 1200,400 'http://127.0.0.1:16061/ui/flamegraph?si=comm'
