#!/bin/sh
# The embedded family on one GPU and many cores: a longer target by the clock (TARGET_MINUTES), its answers, both heads.
# Results, curves included, lie under $OUT. Wants an environment with requirements.txt and a CUDA build of torch.
set -eu
OUT=${OUT:-runs/gpu}
WORKERS=${WORKERS:-14}
PYTHON=${PYTHON:-python}
export OMP_NUM_THREADS=1
mkdir -p "$OUT"

$PYTHON -m glance train target --recipe mini-target-gpu --start-from assets/mini/target --device cuda \
    --workers "$WORKERS" --minutes "${TARGET_MINUTES:-4.5}" --out "$OUT/target-run"
rm -rf "$OUT/target" && cp -r "$OUT/target-run/target" "$OUT/target"
rm "$OUT/target-run/state.pt"

# the states of the answers take gigabytes: they stay outside $OUT
CORPUS=$(mktemp -d)
trap 'rm -rf "$CORPUS"' EXIT
for head in glance eagle3; do
    $PYTHON -m glance train "$head" --target "$OUT/target" --corpus "$CORPUS" --device cuda \
        --workers 6 --out "$OUT/$head-run"
    rm -rf "${OUT:?}/$head" && cp -r "$OUT/$head-run/head" "$OUT/$head"
    rm "$OUT/$head-run/state.pt"
done
