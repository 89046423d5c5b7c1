#!/usr/bin/env bash
# Full-protocol runs on a GPU, unattended and within a given time, most valuable first.
#
#   workflow/gpu.sh MINUTES OUT.tar
#
# Needs Python (`python3`, or what PYTHON names, say .venv/bin/python) with torch, torchvision, numpy, scipy, pandas,
# scikit-learn, pillow, safetensors, tqdm and hypnettorch, and where data sets are to be downloaded pooch and requests;
# no installation of this project. Photographs are looked for where HYPERMASK_DATA says. After each command OUT.tar is
# rewritten with all runs that ended so far; bring them home with `hypermask records add OUT.tar`. Called again, it goes
# on where it stopped. What is in records/ is not trained again. A copy of the checkout that goes without .git needs the
# file that `hypermask revision` writes before, or its records tell of no revision and are not added.
# Ends with 1 if some command failed.
set -euo pipefail

if [[ $# -ne 2 || ! $1 =~ ^[0-9]+$ ]]; then
  echo "usage: workflow/gpu.sh MINUTES OUT.tar" >&2
  exit 2
fi
deadline=$(($(date +%s) + 60 * 10#$1))
archive=$(realpath -m "$2")
if [[ ! -w $(dirname "$archive") ]]; then
  echo "gpu: $(dirname "$archive") is no folder that can be written to; name another archive" >&2
  exit 2
fi
[[ -z ${HYPERMASK_DATA:-} ]] || HYPERMASK_DATA=$(realpath -m "$HYPERMASK_DATA")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# What is packed are this checkout's runs.
export HYPERMASK_ROOT=$PWD
PYTHON=${PYTHON:-python3}
packages="torch, torchvision, numpy, scipy, pandas, sklearn, PIL, safetensors, tqdm, hypnettorch"
if ! told=$("$PYTHON" -c "import $packages" 2>&1); then
  echo "gpu: $PYTHON lacks a package (${told##*$'\n'}); name a Python that has them: PYTHON=.venv/bin/python $0" >&2
  exit 2
fi
if ! "$PYTHON" -c "import sys; from hypermask import revision; sys.exit(revision.state()[1] is not False)"; then
  echo "gpu: no clean revision is known here, so \`hypermask records add\` will not take these runs; see the top of $0" >&2
fi
commands=0 failed=0 status=0
code=$(find hypermask -type f \( -name '*.py' -o -name '*.c' \) -print0 | sort -z | xargs -0 cat | sha256sum | cut -c1-12)

left() { echo $((deadline - $(date +%s))); }

# The files of all runs that ended, with the arrays beside them, and of all benchmarks.
finished() {
  find records/bench -name '*.json' 2>/dev/null || true
  { grep -rlE --include='seed*.json' '"status": "(finished|diverged)"' runs 2>/dev/null || true; } | sed 'p; s/json$/npz/' |
    while read -r file; do [[ ! -e $file ]] || echo "$file"; done
}

# Benchmarks are saved below records/bench, runs below runs/; both go into one archive under their paths there.
pack() {
  local files=()
  mapfile -t files < <(finished | sort)
  if [[ ${#files[@]} -gt 0 ]]; then
    tar cf "$archive.new" "${files[@]}"
    mv "$archive.new" "$archive"
  fi
}

# Ends the script: what is to be said, how many commands failed, and what there is.
told() {
  local words="$archive holds all runs that ended"
  [[ -e $archive ]] || words="no run has ended"
  ((failed == 0)) || words="$failed of $commands commands failed, see above; $words"
  echo "gpu: $1; $words."
  exit $((failed > 0))
}

# hypermask COMMAND..., stopped as by Ctrl-C when the time is up: a checkpoint is left, from which it goes on.
within_time() {
  local seconds
  seconds=$(left)
  if ((seconds < 20)); then
    told "the time is up; call it again to go on"
  fi
  echo "gpu: $* ($seconds s left)"
  status=0
  timeout --signal=INT --kill-after=10 $((seconds - 10)) "$PYTHON" -m hypermask "$@" || status=$?
  commands=$((commands + 1))
  # 124: stopped, as the time was up.
  if ((status != 0 && status != 124)); then
    echo "gpu: ended with status $status: $*"
    failed=$((failed + 1))
  fi
  pack
}

# The same for what leaves no run, and is not repeated when the script is called again with the same code.
once() {
  local mark
  mark=build/gpu/$code/$(tr -cs '[:alnum:]_\n' - <<<"$*")
  if [[ ! -e $mark ]]; then
    within_time "$@"
    if ((status == 0)); then
      mkdir -p "build/gpu/$code"
      touch "$mark"
    fi
  fi
}

# What experiments lack, as `hypermask run` takes it, a line for each run: all of a seed before the next, and at the end
# the seeds whose record only lacks what is inferred: a new one would take its place by --force alone.
lacking() {
  "$PYTHON" - "$@" <<'END'
import sys

from hypermask import paths, records, sweeps

chosen = [job for job in sweeps.jobs(["all"]) if job.experiment.name in sys.argv[1:] and not job.experiment.overrides]
there = {
    (record.experiment, record.seed)
    for job in chosen
    for record in records.find(job.experiment.name, job.experiment.config.hash, paths.records())
}
for again in (False, True):
    for seed in sorted({seed for job in chosen for seed in job.missing}):
        for job in chosen:
            if seed in job.missing and ((job.experiment.name, seed) in there) == again:
                print(job.arguments([seed]))
END
}

# Trains what experiments lack, each run by a command of its own.
by_seed() {
  local listed run
  listed=$(lacking "$@")
  while read -r -u 3 run; do
    # shellcheck disable=SC2086 # several arguments
    [[ -z $run ]] || within_time run $run --device cuda
  done 3<<<"$listed"
}

# Whether a data set of photographs is here and undamaged, as a folder or an archive, or pooch could download it.
photographs() {
  local report
  report=$("$PYTHON" -m hypermask data)
  ! grep -q "^$1 *damaged" <<<"$report" || return 1
  ! grep -q "^$1 *missing" <<<"$report" || "$PYTHON" -c "import pooch" 2>/dev/null
}

once bench permuted_mnist --tasks 1 2 10 --device cuda --save
once bench split_mnist --tasks 1 5 --device cuda --save
by_seed permuted_mnist_10/hypermask-t permuted_mnist_10/hypermask-f
once verify records/split_mnist/hypermask-t/02d0e9695504/seed1.json --device cuda
if photographs cifar-100-python; then
  within_time sweep questions --device cuda
  by_seed split_cifar100/hypermask-f split_cifar100/hypermask-t
  within_time sweep table02 --device cuda
else
  echo "gpu: CIFAR-100 is not here (HYPERMASK_DATA), or damaged, and cannot be downloaded; what needs it is left out for now"
fi
within_time sweep table09 table08 --device cuda
within_time sweep fig02 --device cuda
within_time sweep all --device cuda
told "everything is done"
