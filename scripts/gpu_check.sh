#!/usr/bin/env bash
# On a machine with a GPU (24 GiB or more): what each pass of a round costs at Qwen3-VL-8B's shapes, in 10 minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
exec python -m glance.lab.gpu_check --json assets/bench/gpu.json "$@"
