"""`hypermask bench`, measured for real on tiny configurations."""

import json

import pytest
import torch

from hypermask import bench, benchmarks, cli, experiments, files, methods
from hypermask.needs import hypernetwork_parameters

CPU = torch.device("cpu")
ROW = ["task", "reference_ms", "eager_ms", "fused_ms", "speedup", "bandwidth_share", "peak_memory_mb"]


@pytest.fixture(scope="module")
def measured():
    config = experiments.smoke("split_mnist/hypermask-t").config
    return bench.measure("split_digits", config, [1, 3], CPU, iterations=7)


def test_the_json(measured):
    assert measured == json.loads(json.dumps(measured, allow_nan=False))
    assert (measured["schema"], measured["benchmark"], measured["device"]) == (1, "split_digits", "cpu")
    assert [row["task"] for row in measured["rows"]] == [1, 3]
    for row in measured["rows"]:
        assert list(row) == ROW
        assert all(row[f"{loop}_ms"] > 0 for loop in bench.LOOPS)
        assert row["peak_memory_mb"] == {"reference": None, "eager": None, "fused": None}
    assert measured["copy_gb_per_s"] > 0
    assert measured["others_cpu_share"] is None or measured["others_cpu_share"] >= 0
    assert [set(entry) for entry in measured["first_call_seconds"]] == [{"task", *bench.LOOPS}] * 2
    assert measured["environment"]["threads"] == torch.get_num_threads()


def test_the_ratios(measured):
    config = experiments.smoke("split_mnist/hypermask-t").config
    method = methods.build(config.method, benchmarks.build(config.benchmark, 1, "cpu"), 1)
    layer = sum(part.numel() for part in method.output_layer())
    assert layer < hypernetwork_parameters(config)
    for row in measured["rows"]:
        assert row["speedup"] == pytest.approx(row["reference_ms"] / row["fused_ms"], abs=0.05)
        passes_ms = 1000 * 10 * 4 * layer / (measured["copy_gb_per_s"] * 1e9)
        assert row["bandwidth_share"] == pytest.approx(passes_ms / row["fused_ms"], rel=0.02, abs=1e-3)


def test_loops_take_turns():
    calls = []

    class Recorder:
        def __init__(self, name):
            self.name = name

        def step(self, iteration):
            calls.append((self.name, iteration))

    turns = bench._take_turns({name: Recorder(name) for name in "ABC"}, 20, 7, CPU)
    first = [(name, 10 + i) for name in "ABC" for i in range(5)]
    second = [(name, 15 + i) for name in "ABC" for i in range(2)]
    assert calls == first + second
    assert {name: len(times) for name, times in turns.items()} == {"A": 2, "B": 2, "C": 2}


def test_residual_errors_of_known_matrices():
    config = experiments.smoke("split_mnist/hypermask-t").config
    build = [methods.build(config.method, benchmarks.build(config.benchmark, 1, "cpu"), 1) for _ in range(2)]
    start, now = build
    with torch.no_grad():
        now.output_layer()[1].add_(0.25)
    errors = bench.residual_errors(start, now, 3)
    # Embeddings and hidden layers did not move: R is the bias's change alone.
    assert errors["ratio"] == 0
    assert errors["float32_error"] < 1e-5
    assert errors["tf32_error"] is None
    with torch.no_grad():
        now.hypernetwork.conditional_params[0].add_(0.5)
    assert bench.residual_errors(start, now, 3)["ratio"] > 0


def test_the_task_decides_which_permuted_experiment_is_measured(monkeypatch):
    asked = []
    monkeypatch.setattr(bench, "measure", lambda name, config, tasks, *_: asked.append((config.benchmark.tasks, tasks)))
    bench.run("permuted_mnist", device="cpu")
    bench.run("permuted_mnist", [2, 100], device="cpu")
    bench.run("split_mnist", device="cpu")
    assert asked == [(10, (1, 10)), (100, [2, 100]), (5, (1, 5))]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["split_mnst"], "unknown benchmark 'split_mnst'; did you mean split_mnist?"),
        (["cifar"], "unknown benchmark 'cifar'; did you mean split_mnist, permuted_mnist?"),
        (
            ["split_mnist", "--tasks", "1", "6"],
            "split_mnist has no task 6; it has tasks 1 to 5, so name some of those.",
        ),
        (
            ["permuted_mnist", "--tasks", "0"],
            "permuted_mnist has no task 0; it has tasks 1 to 100, so name some of those.",
        ),
        (["split_mnist", "--iterations", "0"], "the number of iterations is 0; expected at least 1."),
        (["split_mnist", "--device", "tpu"], "device 'tpu' is not known; expected auto, cpu, cuda or cuda:N."),
    ],
)
def test_bad_input_ends_with_one_sentence(arguments, sentence, capsys):
    assert cli.main(["bench", *arguments]) == 2
    assert capsys.readouterr() == ("", f"hypermask: {sentence}\n")


def test_the_command_prints_and_saves_split_mnist(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    arguments = ["bench", "split_mnist", "--tasks", "2", "--device", "cpu", "--iterations", "2", "--json", "--save"]
    assert cli.main(arguments) == 0
    printed = json.loads(capsys.readouterr().out)
    (saved,) = (tmp_path / "records/bench/split_mnist").iterdir()
    assert saved.suffix == ".json" and saved.read_bytes() == files.pretty_json(printed)
    assert [(entry["task"], entry["ms"]) for entry in printed["released_loop"] if entry["device"] == "cpu"] == [
        (1, 139),
        (5, 259),
    ]
    assert printed["config"] == experiments.get("split_mnist/hypermask-t").config.to_dict()
