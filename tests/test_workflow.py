"""The Snakefile as it is, on this machine: real Snakemake runs of tiny configurations below a root of their own; and
the script for a GPU with a stand-in for the commands that need one."""

import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from payloads import logits, payload, write_record
from test_regenerate import write_notebook

from hypermask import experiments, paths, records

NAME = "split_mnist/hypermask-t"
# Long enough for seed 2 to be killed under way.
TINY = "tasks=2 iterations=300 target_hidden=8 embedding_size=2 hypernetwork_hidden=2 augment=false validation=50"
CONFIGURATION = ("--config", f"experiment={NAME}", f"set={TINY}", "seeds=1 2", "device=cpu")


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return tmp_path


def command(project_root: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "snakemake", "-s", str(project_root / "workflow" / "Snakefile"), "-c2", *arguments]


def snakemake(project_root: Path, root: Path, *arguments: str) -> str:
    """What a run prints; it has to succeed."""
    result = subprocess.run(
        command(project_root, *arguments), cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def wait_for(holds: Callable[[], Any], process: subprocess.Popen, log: Path) -> Any:
    deadline = time.monotonic() + 300
    while not (value := holds()):
        if time.monotonic() > deadline:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert process.poll() is None, log.read_text()
        time.sleep(0.02)
    return value


def training(process: subprocess.Popen) -> list[psutil.Process]:
    """The `hypermask run` of a Snakemake run."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
        runs = [child for child in children if child.cmdline()[1:4] == ["-m", "hypermask", "run"]]
        # A program that a run starts, such as git, bears the run's own command line for a moment.
        return [run for run in runs if run.ppid() not in {other.pid for other in runs}]
    except psutil.NoSuchProcess:
        return []


def tiny() -> experiments.Experiment:
    return experiments.get(NAME).override(TINY.split())


def found() -> list[records.Record]:
    return records.find(NAME, tiny().config.hash, paths.runs())


def test_finished_records_survive_a_killed_job_and_a_killed_workflow(project_root, root):
    log = root / "snakemake.log"
    with open(log, "w") as output:
        process = subprocess.Popen(
            command(project_root, *CONFIGURATION), cwd=root, stdout=output, stderr=output, start_new_session=True
        )
    first = records.location(paths.runs(), NAME, tiny().config.hash, 1)
    wait_for(first.is_file, process, log)
    before = first.stat()

    # The job fails in its second seed. Snakemake deletes what it takes for its output and starts it once more ...
    (failing,) = training(process)
    failing.kill()
    wait_for(lambda: [again for again in training(process) if again.pid != failing.pid], process, log)
    assert "Trying to restart job" in log.read_text()
    # ... and then the machine goes down.
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert [(record.seed, record.finished) for record in found()] == [(1, True)]

    snakemake(project_root, root, "--unlock", *CONFIGURATION)
    snakemake(project_root, root, *CONFIGURATION)
    assert [(record.seed, record.finished, record.tasks) for record in found()] == [(1, True, 2), (2, True, 2)]
    assert (first.stat().st_ino, first.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    job = paths.build() / "workflow" / NAME / first.parent.name / "seeds-1-2.log"
    assert "was there already" in job.read_text()

    assert "Nothing to be done" in snakemake(project_root, root, *CONFIGURATION)
    # Without its record a seed is not done, whatever was marked.
    first.unlink()
    assert "train        1" in snakemake(project_root, root, "-n", *CONFIGURATION)


def test_an_item_is_trained_and_then_drawn_with_own_runs(project_root, root):
    # Its run, of another root's notebook, is there: nothing has to be trained in full.
    shipped = records.location(project_root / "records", NAME, experiments.get(NAME).config.hash, 1)
    own = records.location(paths.runs(), NAME, shipped.parent.name, 1)
    own.parent.mkdir(parents=True)
    for suffix in (".json", ".npz"):
        own.with_suffix(suffix).write_bytes(shipped.with_suffix(suffix).read_bytes())
    write_notebook(
        root,
        "fig14_split_mnist_tsne",
        "from pathlib import Path\nfrom hypermask import paths, results\n"
        "(runs,) = results.gather('fig14', profile, own_runs).values()\n"
        "(paths.build() / 'drawn').write_text(f'{runs.records} {[record.seed for record in runs.own]}')",
        parameters='profile: str = "recorded"  # which records\nown_runs: bool = False  # yours too\n',
    )
    output = snakemake(project_root, root, "--config", "items=fig14")
    assert "rule regenerate" in output
    assert (paths.build() / "drawn").read_text() == "() [1]"
    assert "Nothing to be done" in snakemake(project_root, root, "--config", "items=fig14")
    (record,) = paths.runs().rglob("seed1.json")
    os.utime(record, (time.time() + 1, time.time() + 1))
    assert "rule regenerate" in snakemake(project_root, root, "-n", "--config", "items=fig14"), (
        "drawn from older records"
    )


def test_a_dry_run_lists_the_configurations_of_an_item(project_root, root):
    profile = project_root / "workflow" / "profiles" / "local"
    output = snakemake(project_root, root, "-n", "--profile", str(profile), "--config", "items=fig15")
    assert "train            12\n" in output
    assert output.count("seeds-1-2.log") == 12
    assert not paths.runs().exists()


def test_open_questions_are_trained_and_drawn_by_no_notebook(project_root, root):
    output = snakemake(project_root, root, "-n", "--config", "items=questions")
    assert "rule train" in output
    assert "regenerate" not in output


def test_without_a_choice_it_says_what_to_choose(project_root, root):
    result = subprocess.run(command(project_root, "-n"), cwd=root, capture_output=True, text=True)
    assert result.returncode != 0
    assert "nothing is chosen; give --config items=" in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        (["experiment=split_mnist/hypermask-t", "seed=1"], "--config has no seed; it takes device, experiment, items,"),
        (["items=fig15", "seeds=1"], "set and seeds are of one experiment; give --config experiment=NAME with them."),
    ],
)
def test_a_choice_that_would_have_no_effect_is_refused(project_root, root, chosen, sentence):
    result = subprocess.run(command(project_root, "-n", "--config", *chosen), cwd=root, capture_output=True, text=True)
    assert result.returncode != 0
    assert sentence in result.stdout + result.stderr


def test_an_item_without_runs_is_not_drawn_with_others(project_root, root):
    output = snakemake(project_root, root, "-n", "--config", "items=fig01 fig15")
    assert "regenerated/fig15.done" in output and "fig01" not in output


def test_every_profile_says_what_a_job_takes(project_root):
    import yaml

    profiles = {
        path.parent.name: yaml.safe_load(path.read_text()) for path in project_root.glob("workflow/profiles/*/*")
    }
    assert sorted(profiles) == ["kubernetes", "local", "slurm"]
    assert all(profile["set-resources"] == {"train": {"gpu": 1}} for profile in profiles.values())
    assert [profiles[name]["executor"] for name in ("kubernetes", "slurm")] == ["kubernetes", "slurm"]
    assert "UNTESTED" in (project_root / "workflow" / "profiles" / "kubernetes" / "config.yaml").read_text()


@pytest.fixture
def gpu(project_root, root, monkeypatch) -> Callable[[int], subprocess.CompletedProcess[str]]:
    """Runs the script for a GPU below the root for so many minutes; `hypermask` only notes its arguments."""
    if sys.platform != "linux":
        pytest.skip("workflow/gpu.sh is for Linux")
    script, python = root / "workflow" / "gpu.sh", root / "python"
    script.parent.mkdir()
    script.write_bytes((project_root / "workflow" / "gpu.sh").read_bytes())
    (root / "hypermask").mkdir()
    (root / "hypermask" / "bench.py").write_text("older = True\n")
    python.write_text(
        f'#!/bin/sh\n[ "$1" = -c ] && exit\n[ "$1" = - ] && exec "{sys.executable}" "$@"\n'
        'shift 2\n[ "$1" = data ] && echo "cifar-100-python   found" && exit\necho "$*" >> commands\n'
    )
    python.chmod(0o755)
    monkeypatch.setenv("PYTHON", str(python))
    monkeypatch.setenv("PYTHONPATH", str(project_root))
    return lambda minutes: subprocess.run(
        ["bash", script, str(minutes), root / "out.tar"], capture_output=True, text=True
    )


def test_on_a_gpu_nothing_is_trained_that_is_there_and_finished_runs_are_packed(root, gpu):
    both = (fixed, trainable) = "permuted_mnist_10/hypermask-f", "permuted_mnist_10/hypermask-t"
    write_record(paths.records(), fixed, 1)
    write_record(paths.records(), trainable, 2)
    kept = records.write(payload(fixed, 2), logits(10), paths.runs())
    diverged = write_record(paths.runs(), fixed, 3, status="diverged")
    # Without what table 2 reads from it: this run is made again.
    plain = write_record(paths.runs(), trainable, 5)
    bench = paths.records() / "bench" / "permuted_mnist" / "a-gpu.json"
    bench.parent.mkdir(parents=True)
    bench.touch()
    ended = gpu(5)
    assert ended.returncode == 0, ended.stderr
    commands = (root / "commands").read_text().splitlines()
    assert all(command.endswith("--device cuda") or command.endswith("--device cuda --save") for command in commands)
    assert [command for command in commands if command.startswith(tuple(f"run {name}" for name in both))] == [
        f"run {trainable} --infer ent fecam --seed 1 --device cuda",
        f"run {trainable} --infer ent fecam --seed 3 --device cuda",
        # Seed 3 of the other diverged, and would again.
        f"run {trainable} --infer ent fecam --seed 4 --device cuda",
        f"run {fixed} --seed 4 --device cuda",
        f"run {trainable} --infer ent fecam --seed 5 --device cuda",
        f"run {fixed} --seed 5 --device cuda",
        # It has a record, which lacks what the task is inferred by: after all that have none.
        f"run {trainable} --infer ent fecam --seed 2 --device cuda",
    ]
    assert commands[-1] == "sweep all --device cuda"
    packed = {path.relative_to(root).as_posix() for path in (kept, kept.with_suffix(".npz"), diverged, plain, bench)}
    with tarfile.open(root / "out.tar") as archive:
        assert set(archive.getnames()) == packed
    assert ended.stdout.splitlines()[-1] == f"gpu: everything is done; {root / 'out.tar'} holds all runs that ended."
    assert sum(command.startswith(("bench", "verify")) for command in commands) == 3
    gpu(5)
    again = (root / "commands").read_text().splitlines()[len(commands) :]
    assert not any(command.startswith(("bench", "verify")) for command in again)
    assert again[0] == f"run {trainable} --infer ent fecam --seed 1 --device cuda"
    # Of other code nothing is known.
    (root / "hypermask" / "bench.py").write_text("older = False\n")
    gpu(5)
    newer = (root / "commands").read_text().splitlines()[len(commands) + len(again) :]
    assert sum(command.startswith(("bench", "verify")) for command in newer) == 3


@pytest.mark.parametrize(
    ("state", "without_pooch"), [("missing", '[ "$2" = "import pooch" ] && exit 1\n'), ("damaged", "")]
)
def test_on_a_gpu_what_needs_photographs_is_left_out_without_them(root, gpu, state, without_pooch):
    python = root / "python"
    python.write_text(
        python.read_text()
        .replace("100-python   found", f"100-python   {state}")
        .replace('[ "$1" = -c ] && exit', f'{without_pooch}[ "$1" = -c ] && exit')
    )
    ended = gpu(5)
    assert "gpu: CIFAR-100 is not here (HYPERMASK_DATA), or damaged, and cannot be downloaded" in ended.stdout
    commands = (root / "commands").read_text()
    assert "cifar" not in commands and "sweep table02" not in commands
    assert "sweep table09 table08" in commands


def test_on_a_gpu_failures_are_told_at_the_end(root, gpu):
    python = root / "python"
    python.write_text(python.read_text() + "exit 2\n")
    ended = gpu(5)
    assert ended.returncode == 1
    *_, last = ended.stdout.splitlines()
    count = len((root / "commands").read_text().splitlines())
    assert last == f"gpu: everything is done; {count} of {count} commands failed, see above; no run has ended."
    assert not (root / "out.tar").exists()


def test_on_a_gpu_the_archives_folder_is_looked_at_first(root, gpu):
    ended = subprocess.run(
        ["bash", root / "workflow" / "gpu.sh", "08", root / "nowhere" / "out.tar"], capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"gpu: {root / 'nowhere'} is no folder that can be written to; name another archive\n"
    assert not (root / "commands").exists()


def test_on_a_gpu_a_python_without_packages_is_told_before_anything_begins(root, gpu):
    python = root / "python"
    missing = "ModuleNotFoundError: No module named 'torch'"
    python.write_text(f'#!/bin/sh\necho Traceback >&2\necho "{missing}" >&2\nexit 1\n')
    ended = gpu(5)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"gpu: {python} lacks a package ({missing}); name a Python that has them")
    assert not (root / "commands").exists()


def test_on_a_gpu_nothing_begins_when_the_time_is_up(root, gpu):
    ended = gpu(0)
    assert (ended.returncode, ended.stdout) == (
        0,
        "gpu: the time is up; call it again to go on; no run has ended.\n",
    )
    assert not (root / "commands").exists()


def test_slurm_test_refuses_in_a_sentence_what_it_cannot_do(project_root, tmp_path):
    script = project_root / "workflow" / "test_slurm.sh"
    result = subprocess.run(
        ["setpriv", "--reuid=65534", "--clear-groups", script] if os.geteuid() == 0 else [script],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert result.stderr == (
        "test-slurm: it starts Slurm's daemons and so needs root; run it as root, for example in a container.\n"
    )
