#!/usr/bin/env bash
# The unchanged Snakefile, with the slurm profile, on a real Slurm of one node that is started here and stopped again.
#
#   workflow/test_slurm.sh [PYTHON]
#
# It needs root on Debian or Ubuntu, and installs slurm-wlm and munge where they are missing. Its daemons have keys,
# ports and folders of their own; only Slurm's configuration lies where every command looks for it, so it refuses where
# one is there.
set -euo pipefail

python=$(command -v "${1:-python3}" || true)
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
started=$SECONDS

refuse() {
  echo "test-slurm: $1" >&2
  exit 1
}

[[ $EUID -eq 0 ]] || refuse "it starts Slurm's daemons and so needs root; run it as root, for example in a container."
[[ -f /etc/debian_version ]] \
  || refuse "it needs the packages slurm-wlm and munge of Debian or Ubuntu, and this is neither."
"$python" -c 'import snakemake_executor_plugin_slurm' 2>/dev/null \
  || refuse "${1:-python3} has no snakemake-executor-plugin-slurm; run 'make test-slurm', which uses the .venv."
config=/etc/slurm/slurm.conf
ours='/var/tmp/hypermask-slurm.*/slurm.conf'
# shellcheck disable=SC2053 # a pattern
[[ ! -e $config && ! -L $config ]] || [[ $(readlink "$config") == $ours ]] \
  || refuse "this machine has a Slurm already ($config); run it elsewhere, for example in a container."

# Ends the daemons whose folder is given, and removes what they left.
take_down() {
  local name pid
  for name in slurmd slurmctld munged; do
    pid=$(cat "$1/$name.pid" 2>/dev/null || true)
    [[ -n $pid && $(cat "/proc/$pid/comm" 2>/dev/null || true) == "$name" ]] || continue
    kill "$pid" 2>/dev/null || true
    for _ in {1..100}; do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -9 "$pid" 2>/dev/null || true
  done
  rm -rf "$1" "$config"
}

# A run that was killed could not clean up.
[[ ! -L $config ]] || take_down "$(dirname "$(readlink "$config")")"

folder=$(mktemp -d /var/tmp/hypermask-slurm.XXXXXX)
policy=
finish() {
  local status=$?
  trap - EXIT INT TERM
  if ((status != 0)); then
    echo "test-slurm: failed with status $status; the last lines of its logs:" >&2
    find "$folder" -name '*.log' -exec tail -n 15 -v {} + >&2 || true
  fi
  # Jobs go first, while there is a Slurm to end them.
  [[ ! -S $folder/munged.socket ]] || timeout 10 scancel --quiet --user root 2>/dev/null || true
  take_down "$folder"
  [[ -z $policy ]] || rm -f "$policy"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Debian puts the daemons where only root looks.
export PATH=$PATH:/usr/sbin:/sbin
if ! { command -v munged && command -v slurmctld && command -v slurmd && command -v sbatch; } >/dev/null; then
  echo "test-slurm: install slurm-wlm and munge"
  # The packages' own daemons do not start.
  if [[ ! -e /usr/sbin/policy-rc.d ]]; then
    policy=/usr/sbin/policy-rc.d
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
  fi
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends slurm-wlm munge; } >"$folder/apt.log" 2>&1 \
    || refuse "apt-get could not install slurm-wlm and munge; its last words are below."
fi

host=$(hostname -s)
# Half the machine's memory is enough, and is there in a container with less than the machine has.
memory=$(awk '/MemTotal/ { print int($2 / 2048) }' /proc/meminfo)
chmod 711 "$folder"
mkdir "$folder"/{state,spool,root}
head -c 128 /dev/urandom >"$folder/munge.key"
chmod 600 "$folder/munge.key"
cat >"$folder/slurm.conf" <<END
ClusterName=hypermask-test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
AuthInfo=socket=$folder/munged.socket
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=sched_interval=2
MpiDefault=none
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=$memory State=UNKNOWN
PartitionName=test Nodes=$host Default=YES MaxTime=INFINITE State=UP
END
# A link, so that the next run knows whose it is. SLURM_CONF would do, but Snakemake's job steps drop it.
mkdir -p "$(dirname "$config")"
ln -s "$folder/slurm.conf" "$config"
unset SLURM_CONF

echo "test-slurm: start munged, slurmctld and slurmd"
munged --force --key-file="$folder/munge.key" --socket="$folder/munged.socket" --pid-file="$folder/munged.pid" \
  --log-file="$folder/munged.log" --seed-file="$folder/munged.seed" --num-threads=2
slurmctld
slurmd
for _ in {1..60}; do
  [[ $(sinfo --noheader --format=%T 2>/dev/null) == idle ]] && break
  sleep 0.5
done
[[ $(sinfo --noheader --format=%T) == idle ]] \
  || refuse "the node is not idle after 30 s: $(sinfo --noheader --format='%T, %E')."

echo "test-slurm: run the Snakefile with the slurm profile"
export HYPERMASK_ROOT=$folder/root HYPERMASK_PROGRESS=off
cd "$checkout"
workflow() {
  "$python" -m snakemake --snakefile workflow/Snakefile --profile workflow/profiles/slurm \
    --slurm-status-command squeue --slurm-no-account --slurm-init-seconds-before-status-checks 5 \
    --slurm-logdir "$folder/joblogs" --seconds-between-status-checks 3 --latency-wait 10 \
    --default-resources mem_mb=1500 runtime=10 --set-resources train:gpu=0 --set-threads train=1 \
    --config experiment=split_mnist/hypermask-t seeds="1 2 3" seeds_per_job=2 device=cpu \
    set="tasks=2 iterations=2 target_hidden=8 embedding_size=2 hypernetwork_hidden=2 augment=false" "$@"
}
workflow 2>&1 | tee "$folder/snakemake.log"

"$python" - <<'END'
from hypermask import paths, records

found = [records.read(path) for path in sorted(paths.runs().rglob("seed*.json"))]
assert [record.seed for record in found] == [1, 2, 3], found
assert all(record.finished and record.tasks == 2 for record in found)
END
submitted=$(grep -c 'SLURM jobid' "$folder/snakemake.log" || true)
((submitted >= 2)) || refuse "expected two jobs of Slurm, one for each group of seeds, and found $submitted."
workflow 2>&1 | grep -q 'Nothing to be done' || refuse "a second run found something to do."
echo "test-slurm: passed: three records from $submitted jobs of Slurm, in $((SECONDS - started)) s"
