"""The command line as a person uses it, on small configurations below a root of their own."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from payloads import logits, payload

from hypermask import __version__, checkpoints, cli, experiments, files, paths, records

NAME = "split_mnist/hypermask-t"
SMALL = (
    *("tasks=2", "iterations=12", "validation=50", "batch_size=16"),
    *("target_hidden=8", "embedding_size=4", "hypernetwork_hidden=4"),
)

# Five tasks, each long enough for a signal to arrive.
LONG = ("tasks=5", "iterations=150", *SMALL[2:])


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    # `--data-root` sets this one: set here, it is put back after each test.
    monkeypatch.setenv("HYPERMASK_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(capsys, *arguments: str) -> tuple[int, str, str]:
    status = cli.main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def place(*assignments: str, seed: int = 1) -> Path:
    config = experiments.get(NAME).override(list(assignments or SMALL)).config
    return records.location(paths.runs(), NAME, config.hash, seed)


def files_below(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


# -- run ----------------------------------------------------------------------------------------------------


def test_run_trains_seed_1_into_runs_and_says_where(capsys):
    status, out, err = ran(capsys, "run", NAME, "--set", *SMALL)
    path = place()
    assert (status, err) == (0, "")
    assert re.fullmatch(
        rf"{NAME} seed 1: mean accuracy \d+\.\d\d %; {path.relative_to(paths.root())} is written\n", out
    )
    record = records.read(path)
    assert (record.finished, record.tasks, record.seed) == (True, 2, 1)
    assert record.payload["overrides"] == sorted(SMALL)
    assert sorted(p.name for p in path.parent.iterdir()) == ["seed1.json", "seed1.npz"]


def test_several_seeds_and_settings_given_in_parts(capsys):
    status, out, _ = ran(capsys, "run", NAME, "--set", *SMALL[:3], "--seed", "2", "--seed", "1", "--set", *SMALL[3:])
    assert status == 0
    assert [line.partition(":")[0] for line in out.splitlines()] == [f"{NAME} seed 2", f"{NAME} seed 1"]
    found = records.find(NAME, records.read(place()).config_hash, paths.runs())
    assert [record.seed for record in found] == [1, 2]
    assert found[0].payload["accuracy"] != found[1].payload["accuracy"]


def test_a_finished_run_of_ones_own_is_not_trained_again_unless_forced(capsys):
    ran(capsys, "run", NAME, "--set", *SMALL)
    before, written = place().read_bytes(), place().stat().st_mtime_ns
    status, out, _ = ran(capsys, "run", NAME, "--set", *SMALL)
    assert status == 0
    assert out.endswith("seed1.json was there already (--force trains it again)\n")
    assert (place().read_bytes(), place().stat().st_mtime_ns) == (before, written)
    status, out, _ = ran(capsys, "run", NAME, "--set", *SMALL, "--force")
    assert status == 0
    assert out.endswith("is written\n")
    after = json.loads(place().read_bytes())
    assert after["accuracy"] == json.loads(before)["accuracy"]
    assert place().stat().st_mtime_ns > written


def test_a_run_whose_logits_are_damaged_is_trained_again(capsys, monkeypatch):
    monkeypatch.delenv("HYPERMASK_PROGRESS")
    ran(capsys, "run", NAME, "--set", *SMALL)
    beside = place().with_suffix(".npz")
    content = beside.read_bytes()
    beside.write_bytes(content[:300])
    status, out, err = ran(capsys, "run", NAME, "--set", *SMALL)
    assert status == 0
    assert f"{NAME} seed 1 is trained again: " in err and "(SHA-256 differs)" in err
    assert out.endswith("is written\n")
    assert beside.read_bytes() == content


def test_a_committed_record_never_makes_run_skip(capsys):
    ran(capsys, "run", NAME, "--set", *SMALL)
    paths.runs().rename(paths.records())
    status, out, _ = ran(capsys, "run", NAME, "--set", *SMALL)
    assert status == 0
    assert out.endswith("is written\n")
    assert place().is_file()


def test_a_run_that_does_not_tell_what_is_to_be_inferred_is_trained_again(capsys, monkeypatch):
    monkeypatch.delenv("HYPERMASK_PROGRESS")
    ran(capsys, "run", NAME, "--set", *SMALL)
    status, out, err = ran(capsys, "run", NAME, "--set", *SMALL, "--infer", "ent")
    assert (status, out.count("is written")) == (0, 1)
    assert err.startswith(f"{NAME} seed 1 is there without ent and is trained again; `hypermask infer` reads")
    assert set(records.read(place()).payload["inference"]) == {"ent"}
    _, out, _ = ran(capsys, "run", NAME, "--set", *SMALL, "--infer", "ent")
    assert "was there already" in out


def test_a_run_without_the_weights_that_are_to_be_kept_is_trained_again(capsys, monkeypatch):
    monkeypatch.delenv("HYPERMASK_PROGRESS")
    ran(capsys, "run", NAME, "--set", *SMALL)
    _, out, err = ran(capsys, "run", NAME, "--set", *SMALL, "--keep-weights")
    assert out.endswith("is written\n")
    assert err.startswith(f"{NAME} seed 1 is there without its weights and is trained again\n")
    assert checkpoints.has_weights(place(), records.read(place()).tasks)
    _, out, _ = ran(capsys, "run", NAME, "--set", *SMALL, "--keep-weights")
    assert "was there already" in out


def test_a_diverged_run_is_named_and_tried_again(capsys):
    values = [*SMALL, "lr=1e30"]
    for _ in range(2):
        status, out, _ = ran(capsys, "run", NAME, "--set", *values)
        assert status == 0
        assert out.startswith(f"{NAME} seed 1: diverged; ")
        assert out.endswith("is written\n")
    assert records.read(place(*values)).status == "diverged"


def test_options_of_a_run(capsys):
    status, _, _ = ran(
        capsys,
        *("run", NAME, "--set", *SMALL, "--device", "cpu", "--engine", "eager", "--keep-weights"),
        *("--evaluate-every", "5", "--logits-per-task", "7"),
    )
    assert status == 0
    record = records.read(place())
    assert (record.payload["engine"], record.payload["evaluation_interval"]) == ("eager", 5)
    assert record.payload["validation"][0]["iteration"] == [5, 10, 12]
    assert record.arrays()["labels"].shape == (2, 7)
    assert {path.name for path in place().parent.glob("*.safetensors")} == {
        "seed1-task1.safetensors",
        "seed1-task2.safetensors",
    }


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["run", "split_mnist/hypermask"],
            r"unknown experiment 'split_mnist/hypermask'; did you mean split_mnist/.*\?",
        ),
        (["run", NAME, "--set", "bta=1"], r"unknown key 'bta' in 'bta=1'; did you mean beta\?"),
        (["run", NAME, "--set", "beta"], r"'beta' is not an assignment; write key=value, for example beta=0\.01\."),
        (["run", NAME, "--set", "beta=x"], r"beta=x cannot be read; expected a number\."),
        (["run", NAME, "--set", "p=100"], r"p is 100\.0; expected a percentage from 0 to below 100\."),
        (["run", NAME, "--set", "tasks=6"], r"split_mnist was asked for 6 tasks; it has 1 to 5, .*\."),
        (["run", NAME, "--set", "target=vgg"], r"unknown target network 'vgg'; expected .*\."),
        (["run", NAME, "--seed", "-1"], r"seed is -1; expected 0 or more\."),
        (["run", NAME, "--seed", "1", "2", "1"], r"seed 1 is given twice; give each seed once\."),
        (["run", NAME, "--device", "tpu"], r"device 'tpu' is not known; expected auto, cpu, cuda or cuda:N\."),
        (["run", NAME, "--device", "cuda:99"], r"device 'cuda:99' is not here: .*; use auto or cpu\."),
        (
            ["run", NAME, "--set", *SMALL, "--engine", "turbo"],
            r"engine 'turbo' is not known; expected auto.*\.",
        ),
        (
            ["run", NAME, "--set", *SMALL, "--evaluate-every", "0"],
            r"evaluate_every is 0; expected 1 or more\.",
        ),
        (
            ["run", NAME, "--set", *SMALL, "--logits-per-task", "-3"],
            r"logits_per_task is -3; expected 1 or more\.",
        ),
        (["regenerate", "fig99"], r".*fig99.*"),
        (["regenerate", "--profile", "full"], r".*'full'.*recorded, paper.* smoke.*\."),
        (
            ["verify", "nowhere.json"],
            r"nowhere\.json cannot be read \(No such .*\); expected a record\.",
        ),
        (
            ["records", "add", "nowhere"],
            r"nowhere does not exist; give a run's JSON file, a folder or .*\.",
        ),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(capsys, root, arguments, sentence):
    status, out, err = ran(capsys, *arguments)
    assert (status, out) == (2, "")
    assert re.fullmatch(f"hypermask: {sentence}\n", err)
    assert files_below(root) == []


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["run", NAME, "--seed", "one"], "invalid int value: 'one'"),
        (["run", NAME, "--seed", "1.5"], "invalid int value: '1.5'"),
        (["run"], "EXPERIMENT"),
        (["run", NAME, "--sed", "1"], "--sed"),
        (["rum"], "invalid choice: 'rum'"),
        (["verify", "a.json", "b.json"], "unrecognized arguments: b.json"),
        ([], "COMMAND"),
        (["status", "--json", "--csv"], "not allowed with"),
    ],
)
def test_what_the_parser_refuses_ends_with_status_2(capsys, arguments, word):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert word in capsys.readouterr().err.splitlines()[-1]


# -- the real command in a process of its own ---------------------------------------------------------------


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "HYPERMASK_PROGRESS"}
    package = Path(cli.__file__).resolve().parent.parent
    return kept | {"PYTHONPATH": str(package), "PYTHONUNBUFFERED": "1"} | changes


def hypermask(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hypermask", *arguments], env=environment(), capture_output=True, text=True, timeout=120
    )


def test_an_error_in_the_real_command_has_no_traceback(root):
    ended = hypermask("run", NAME, "--set", "beta=x")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "hypermask: beta=x cannot be read; expected a number.\n"


def test_version_and_help():
    assert hypermask("--version").stdout == f"hypermask {__version__}\n"
    listed = hypermask("--help").stdout
    commands = ("run", "infer", "regenerate", "notebooks", "status", "sweep", "compare", "verify", "records", "data")
    for command in (*commands, "bench", "revision"):
        assert re.search(rf"^ +{command}\b", listed, re.MULTILINE), command


def stopped(sign: signal.Signals) -> subprocess.CompletedProcess[str]:
    """A long run that is sent a signal once two of its five tasks are done."""

    def as_from_a_terminal() -> None:
        # A parent that runs in the background may have had its children ignore Ctrl-C.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    command = [sys.executable, "-m", "hypermask", "run", NAME, "--set", *LONG]
    process = subprocess.Popen(
        command,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=as_from_a_terminal,
    )
    lines = [process.stderr.readline() for _ in range(3)]
    assert "task 2/5 done" in lines[2], lines
    process.send_signal(sign)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def test_a_killed_run_leaves_no_record_goes_on_and_ends_as_an_uninterrupted_one(capsys, root, monkeypatch):
    ended = stopped(signal.SIGKILL)
    assert ended.returncode == -signal.SIGKILL
    assert list(root.rglob("seed*.json")) == []
    assert list(root.rglob("seed*.npz")) == []
    assert records.to_frame([paths.runs()]).empty
    (checkpoints,) = {path.parent for path in root.rglob("state*.safetensors")}

    ended = hypermask("run", NAME, "--set", *LONG)
    assert ended.returncode == 0
    reported = [line.partition(" done in")[0] for line in ended.stderr.splitlines()]
    assert reported in (
        [
            f"{NAME}, seed 1: 5 tasks of 150 iterations, goes on after task {done}",
            *(f"{NAME}, seed 1: task {task}/5" for task in range(done + 1, 6)),
        ]
        for done in (1, 2)
    )
    assert ended.stdout.count("\n") == 1
    resumed = records.read(place(*LONG))
    assert not checkpoints.exists()
    monkeypatch.setenv("HYPERMASK_ROOT", str(root / "another"))
    ran(capsys, "run", NAME, "--set", *LONG)
    uninterrupted = records.read(place(*LONG))
    for key in ("accuracy", "target_distance", "logits", "validation"):
        assert resumed.payload[key] == uninterrupted.payload[key], key


def test_ctrl_c_ends_with_130_and_leaves_no_half_written_file(root):
    ended = stopped(signal.SIGINT)
    assert ended.returncode == 130
    assert ended.stdout == ""
    assert ended.stderr.splitlines()[-1] == (
        "hypermask: stopped; nothing half-written is left (`run` and `sweep` go on from the last finished task)."
    )
    assert "Traceback" not in ended.stderr
    assert list(root.rglob("seed*.json")) == []
    assert list(root.rglob("*.tmp")) == []


def test_a_reader_that_goes_away_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    buffered = {name: value for name, value in environment().items() if name != "PYTHONUNBUFFERED"}
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "hypermask", "status"],
            env=buffered,
            stdout=writer,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    finally:
        os.close(writer)
    assert (ended.returncode, ended.stderr) == (1, b"")


@pytest.mark.parametrize(
    ("arguments", "called", "ends"),
    [
        ([], ([], "recorded", 1), "TABLE of the root"),
        (["fig06", "--jobs", "2"], (["fig06"], "recorded", 2), ""),
        (["--profile", "paper"], ([], "paper", 1), "TABLE of build/own"),
        (["fig06", "--profile", "paper"], (["fig06"], "paper", 1), "figures and tables are written below build/own"),
        (["--profile", "smoke"], ([], "smoke", 1), "figures and tables are written below build/smoke"),
        (
            ["fig06", "--own-runs"],
            (["fig06"], "recorded", 1, {"own_runs": True}),
            "figures and tables are written below build/own",
        ),
    ],
)
def test_regenerate_says_what_there_is_now_and_where(arguments, called, ends, root, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(cli, "_tell_what_is_trained", lambda names: None)
    monkeypatch.setattr("hypermask.regenerate.regenerate", lambda *given: asked.append(given) or 1)
    monkeypatch.setattr(
        "hypermask.status.closing_table",
        lambda base: f"TABLE of {'the root' if base == root else base.relative_to(root)}",
    )
    status, out, _ = ran(capsys, "regenerate", *arguments)
    # The status of the notebooks is passed on.
    assert (status, asked, out.strip()) == (1, [called], ends)


def test_regenerate_says_how_many_runs_it_trains(root, monkeypatch, capsys):
    (root / "notebooks").mkdir()
    for stem in ("fig06_split_mnist_accuracy_matrix", "quickstart"):
        (root / "notebooks" / f"{stem}.ipynb").touch()
    monkeypatch.setattr("hypermask.regenerate.regenerate", lambda *given: 0)
    records.write(payload(inference={"ent": {}, "fecam": {}}), None, paths.records())
    _, out, _ = ran(capsys, "regenerate", "fig06", "--profile", "paper")
    assert out.startswith("9 runs are missing and trained first; hypermask sweep fig06 --dry-run lists them\n")
    _, out, _ = ran(capsys, "regenerate", "--profile", "paper")
    assert out.startswith("9 runs are missing and trained first; hypermask sweep all --dry-run lists them\n")
    _, out, _ = ran(capsys, "regenerate", "quickstart", "--profile", "paper")
    assert "missing" not in out


def test_own_runs_of_all_items_leave_out_what_has_none(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr("hypermask.regenerate.regenerate", lambda *given: asked.append(given) or 0)
    monkeypatch.setattr("hypermask.status.closing_table", lambda base: "")
    assert ran(capsys, "regenerate", "--own-runs")[0] == 0
    (names, *_) = asked[0]
    assert ("fig01" in names, "fig06" in names, len(names)) == (False, True, 26)


def test_a_folder_that_cannot_be_made_is_one_sentence(root):
    (root / "build").write_text("")
    ended = hypermask("regenerate", "quickstart")
    assert ended.returncode == 2
    assert re.fullmatch(r"hypermask: (File exists|Not a directory): .*; make room or give access, .*\n", ended.stderr)


def test_a_warning_is_a_sentence_on_standard_error(capsys):
    source = records.write(payload(), None, paths.records())
    source.write_text("{}")
    _, _, err = ran(capsys, "status", "--csv")
    assert re.match(r"hypermask: left out as not there: records/.*seed1\.json is not a record", err)
    assert ".py" not in err


# -- verify -------------------------------------------------------------------------------------------------


def test_verify_trains_the_record_again_and_finds_it_identical(capsys, root):
    ran(capsys, "run", NAME, "--set", *SMALL)
    before = files_below(root)
    status, out, err = ran(capsys, "verify", str(place()))
    assert (status, err) == (0, "")
    assert out == (
        f"{NAME} seed 1 agrees: same machine, engine and torch version: the accuracy matrices must be identical, and "
        "they are.\n"
    )
    assert files_below(root) == before


def test_verify_refuses_a_diverged_record_before_it_trains(capsys, monkeypatch):
    ran(capsys, "run", NAME, "--set", *SMALL, "lr=1e30")
    monkeypatch.setattr("hypermask.training.run_experiment", None)
    status, _, err = ran(capsys, "verify", str(place(*SMALL, "lr=1e30")))
    assert (status, err) == (2, "hypermask: seed1.json is diverged; only finished runs are compared.\n")


def test_the_revision_is_noted_for_copies_without_git(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("hypermask.revision.note", lambda: tmp_path / "REVISION.json")
    status, out, _ = ran(capsys, "revision")
    assert (status, out.endswith("REVISION.json is written; copy it along.\n")) == (0, True)


def test_verify_finds_a_changed_number(capsys):
    ran(capsys, "run", NAME, "--set", *SMALL)
    changed = json.loads(place().read_bytes())
    changed["accuracy"][1][0] = round(changed["accuracy"][1][0] / 2, 3)
    place().write_bytes(files.pretty_json(records.seal(changed)))
    status, out, _ = ran(capsys, "verify", str(place()))
    assert status == 1
    assert f"{NAME} seed 1 DISAGREES: same machine" in out


def test_verify_with_another_engine_allows_for_the_spread(capsys):
    ran(capsys, "run", NAME, "--set", *SMALL, "--engine", "fused")
    status, out, _ = ran(capsys, "verify", str(place()), "--engine", "eager")
    assert status == 0
    assert "another machine, engine or torch version" in out


def test_verify_trains_what_the_record_was_made_with_whatever_its_name_means_today(capsys):
    ran(capsys, "run", NAME, "--set", *SMALL)
    changed = json.loads(place().read_bytes())
    # As if a value had been the named one then.
    changed["overrides"] = changed["overrides"][1:]
    place().write_bytes(files.pretty_json(records.seal(changed)))
    assert ran(capsys, "verify", str(place()))[0] == 0


def test_verify_refuses_a_configuration_that_no_changes_lead_to(capsys):
    ran(capsys, "run", NAME, "--set", *SMALL)
    changed = json.loads(place().read_bytes()) | {"experiment": "split_mnist/hnet", "overrides": []}
    place().write_bytes(files.pretty_json(records.seal(changed)))
    status, _, err = ran(capsys, "verify", str(place()))
    assert status == 2
    assert err == (
        "hypermask: no changes of split_mnist/hnet make the configuration of this record; it is of another kind.\n"
    )


# -- records, status, data ----------------------------------------------------------------------------------


def test_records_add_copies_a_named_run(capsys):
    source = records.write(payload(seed=3), logits(), paths.runs())
    status, out, _ = ran(capsys, "records", "add", str(source))
    target = records.location(paths.records(), NAME, experiments.get(NAME).config.hash, 3)
    assert status == 0
    assert out.splitlines() == [
        str(target.relative_to(paths.root())),
        "1 added; `make notebooks` brings them into the notebooks.",
    ]
    assert target.read_bytes() == source.read_bytes()


def test_records_add_refuses_an_overridden_run_and_copies_nothing(capsys):
    ran(capsys, "run", NAME, "--set", *SMALL)
    (run,) = paths.runs().rglob("seed1.json")
    status, out, err = ran(capsys, "records", "add", str(run))
    assert (status, out) == (2, "")
    assert err.startswith(f"hypermask: {NAME} seed 1 was run with --set batch_size=16 ")
    assert err.endswith(" are added.\n")
    # Among others it is passed over.
    assert ran(capsys, "records", "add", str(paths.runs()))[:2] == (0, "nothing was added.\n")
    assert not paths.records().exists()


def test_records_add_with_a_reason(capsys):
    unclean = payload()["environment"] | {"dirty": True}
    source = records.write(payload(environment=unclean), None, paths.runs())
    status, _, err = ran(capsys, "records", "add", str(source))
    assert status == 2
    assert "clean tree" in err
    status, _, _ = ran(capsys, "records", "add", str(source), "--force", "only a comment differed")
    assert status == 0
    (added,) = records.load(NAME)
    assert added.payload["added_by_force"] == "only a comment differed"


def test_status_as_json_has_all_27_items(capsys):
    records.write(payload(), None, paths.records())
    status, out, err = ran(capsys, "status", "--json")
    assert (status, err) == (0, "")
    items = json.loads(out)["items"]
    assert [item["id"] for item in items if item["id"].startswith("fig")] == [f"fig{n:02}" for n in range(1, 16)]
    assert [item["id"] for item in items if item["id"].startswith("table")] == [f"table{n:02}" for n in range(1, 13)]
    assert len(items) == 27
    fig10 = next(item for item in items if item["id"] == "fig10")
    assert (fig10["made"], fig10["state"], fig10["runs_present"], fig10["runs_needed"]) == (False, "partial", 1, 5)
    assert fig10["missing"][0] == {
        "experiment": NAME,
        "seed": 2,
        "command": f"hypermask run {NAME} --infer ent fecam --seed 2",
    }


def test_every_command_that_status_offers_is_understood(capsys):
    _, out, _ = ran(capsys, "status", "--json")
    commands = {run["command"] for item in json.loads(out)["items"] for run in item["missing"]}
    assert len(commands) > 100
    parser = cli._parser()
    for command in commands:
        word, *arguments = command.split()
        assert word == "hypermask"
        options = parser.parse_args(arguments)
        if options.experiment in experiments.EXPERIMENTS:
            experiments.get(options.experiment).override(options.set)


def test_status_as_text_and_as_csv(capsys):
    records.write(payload(), None, paths.records())
    _, out, _ = ran(capsys, "status")
    assert out.splitlines()[0].split() == ["item", "title", "made", "state", "runs", "missing"]
    _, out, _ = ran(capsys, "status", "--csv")
    head, row = out.splitlines()
    assert head.startswith("folder,experiment,seed,status")
    assert row.startswith(f"records,{NAME},1,finished")


def test_compare_as_text_csv_and_markdown(capsys):
    for seed, last in ((1, 99.0), (2, 98.0)):
        records.write(payload(seed=seed, final=[last] * 5), None, paths.records())
        records.write(payload("split_mnist/hnet", seed, final=[last - 1] * 5), None, paths.records())
    status, out, err = ran(capsys, "compare", "split_mnist")
    assert (status, err) == (0, "")
    assert re.search(
        r"^hnet +ours +2000 x 128 +2 +99.79 ± 0.01, quoted +97.50 ± 6.35 +-1.00 ± 0.00 \(2\)", out, re.MULTILINE
    )
    assert "Difference: accuracy minus that of split_mnist/hypermask-t (ours)" in out
    _, out, _ = ran(capsys, "compare", "split_mnist", "--against", "split_mnist/hnet", "--csv")
    head, *rows = (line.split(",") for line in out.splitlines())
    differences = {row[0]: row[head.index("difference_mean")] for row in rows}
    assert differences == {"split_mnist/hnet": "", NAME: "1.0"}
    _, out, _ = ran(capsys, "compare", "split_mnist", "--markdown")
    assert "| hnet | – | ours | 2000 x 128 | 2 |" in out
    assert ran(capsys, "compare", "mnist") == (
        2,
        "",
        "hypermask: no method has run on 'mnist' yet; there are runs on: split_mnist.\n",
    )


def test_data_lists_what_is_bundled_and_what_is_missing(capsys, root):
    status, out, err = ran(capsys, "data", "--data-root", str(root / "sets"))
    assert (status, err) == (0, "")
    states = dict(re.findall(r"^(\S+) +(bundled|missing|found|damaged) ", out, re.MULTILINE))
    assert states == {
        "mnist": "bundled",
        "digits": "bundled",
        "cifar-100-python": "missing",
        "tiny-imagenet-200": "missing",
    }
    assert out.count("get it: ") == 2
    assert str(root / "sets" / "cifar-100-python") in out


def test_a_data_root_that_is_a_file_is_one_sentence(capsys, root):
    (root / "file").write_text("")
    status, out, err = ran(capsys, "data", "--data-root", str(root / "file"))
    assert (status, out) == (2, "")
    assert err == f"hypermask: the data root {root / 'file'} is a file; expected a folder, so name another one.\n"
