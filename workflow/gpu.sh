#!/usr/bin/env bash
# Full-protocol runs on a GPU, unattended and within a given time, most valuable first.
#
#   workflow/gpu.sh MINUTES OUT.tar
#
# Needs Python with torch, numpy, scipy, pandas, safetensors and hypnettorch, but no installation of this project. After
# each run OUT.tar is rewritten with all finished records so far; bring them home with `hypermask records add OUT.tar`.
# Called again, it goes on where it stopped.
set -euo pipefail

if [[ $# -ne 2 || ! $1 =~ ^[0-9]+$ ]]; then
  echo "usage: workflow/gpu.sh MINUTES OUT.tar" >&2
  exit 2
fi
deadline=$(($(date +%s) + 60 * $1))
archive=$(realpath -m "$2")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${PYTHON:-python3}

left() { echo $((deadline - $(date +%s))); }

# Benchmarks are saved below records/bench, runs below runs/; both go into one archive under their paths there.
pack() {
  local files=()
  mapfile -t files < <(find runs records/bench \( -name 'seed*.json' -o -name 'seed*.npz' -o -path 'records/bench/*.json' \) 2>/dev/null | sort)
  if [[ ${#files[@]} -gt 0 ]]; then
    tar cf "$archive.new" "${files[@]}"
    mv "$archive.new" "$archive"
  fi
}

# hypermask COMMAND..., stopped as by Ctrl-C when the time is up: a checkpoint is left, from which it goes on.
within_time() {
  local seconds
  seconds=$(left)
  if ((seconds < 20)); then
    echo "gpu: the time is up; call it again to go on."
    exit 0
  fi
  echo "gpu: $* ($seconds s left)"
  timeout --signal=INT --kill-after=30 "$seconds" "$PYTHON" -m hypermask "$@" || echo "gpu: ended with status $?: $*"
  pack
}

within_time bench permuted_mnist --tasks 1 2 10 --device cuda --save
within_time bench split_mnist --tasks 1 5 --device cuda --save
for seed in 1 2 3 4 5; do
  within_time run permuted_mnist_10/hypermask-t --seed "$seed" --device cuda
  within_time run permuted_mnist_10/hypermask-f --seed "$seed" --device cuda
done
within_time verify records/split_mnist/hypermask-t/02d0e9695504/seed1.json --device cuda
# From here on photographs are needed (HYPERMASK_DATA); a run without its data ends at once.
within_time sweep questions --device cuda
for seed in 1 2 3 4 5; do
  within_time run split_cifar100/hypermask-f --seed "$seed" --device cuda
  within_time run split_cifar100/hypermask-t --seed "$seed" --device cuda
done
within_time sweep table02 --device cuda
within_time run permuted_mnist_10/hnet --seed 1 2 3 4 5 --infer ent --device cuda
within_time sweep table09 table08 --device cuda
within_time run permuted_mnist_100/hypermask-t --seed 1 2 3 --device cuda
within_time sweep all --device cuda
echo "gpu: everything is done; $archive holds all records."
