import json
import math

import pytest
from payloads import payload, write_record

from hypermask import files, paths, saved_benches, times
from hypermask.results import gather

NAME = "split_mnist/hypermask-t"
GPU = payload()["environment"] | {"device": "cuda", "device_name": "Test GPU"}


def made_up_bench(benchmark="permuted_mnist", device="cuda", **changes):
    """A bench with made-up numbers, written below temporary roots only."""
    memory = (lambda mb: mb) if device == "cuda" else (lambda mb: None)
    return {
        "schema": 1,
        "benchmark": benchmark,
        "device": device,
        "rows": [
            {
                "task": task,
                "reference_ms": 60.0 + 4 * task,
                "eager_ms": 20.0 + task,
                "fused_ms": 4.0 + task / 50,
                "speedup": 15.0,
                "bandwidth_share": 0.61,
                "peak_memory_mb": {loop: memory(4000.0 + task) for loop in saved_benches.LOOPS},
            }
            for task in (1, 2, 10)
        ],
        "iterations": 30,
        "copy_gb_per_s": 2800.0,
        "first_call_seconds": [],
        "residual": [{"task": 10, "ratio": 12.5, "float32_error": 2e-6, "tf32_error": 5e-3}],
        "released_loop": [
            {"task": 1, "device": "cuda", "machine": "one H100", "ms": 66},
            {"task": 10, "device": "cuda", "machine": "one H100", "ms": 87},
        ],
        "others_cpu_share": 0.01,
        "environment": GPU if device == "cuda" else payload()["environment"],
    } | changes


def test_a_row_for_each_benchmark_and_device(root):
    for seed, seconds in ((1, 40.0), (2, 50.0), (3, 60.0)):
        write_record(root / "records", NAME, seed, task_seconds=[seconds] * 5)
    write_record(root / "records", NAME, 4, environment=GPU, engine="fused", task_seconds=[6.0] * 5)
    table = times.training_time(gather("table12"))
    frame = table.frame
    assert list(frame.benchmark) == [
        "split_mnist",
        "split_mnist",
        "permuted_mnist_10",
        "split_cifar100",
        "split_cifar100_5x20",
        "tiny_imagenet",
    ]
    cpu, gpu = frame.iloc[0], frame.iloc[1]
    assert (cpu.device, cpu.engine, cpu.whose, cpu.runs) == ("Test CPU, 2 threads", "eager", "ours", 3)
    # Evaluation takes 5 * 0.5 s in each.
    assert (cpu.mean_seconds, cpu.sample_sd_seconds, cpu.training_mean_seconds) == (252.5, 50.0, 250.0)
    assert cpu.paper_over_ours == pytest.approx((21 * 60 + 6) / 252.5)
    assert (gpu.device, gpu.engine, gpu.runs, gpu.mean_seconds) == ("Test GPU", "fused", 1, 32.5)
    assert math.isnan(gpu.sample_sd_seconds)
    assert list(frame.status) == ["", "", *["not run"] * 4]
    assert table.body[0] == (
        "Split MNIST",
        "Test CPU, 2 threads, eager (ours)",
        "00:21:06 ± 00:02:37",
        "00:04:12 ± 00:00:50",
        "3",
        "5.0",
        "–",
    )


def test_runs_that_shared_the_device_are_not_pooled_with_others(root):
    write_record(root / "records", NAME, 1, environment=GPU, task_seconds=[6.0] * 5)
    for seed in (2, 3):
        write_record(root / "records", NAME, seed, environment=GPU | {"seeds_at_once": 5}, task_seconds=[20.0] * 5)
    older = {key: value for key, value in GPU.items() if key != "seeds_at_once"}
    write_record(root / "records", NAME, 4, environment=older, task_seconds=[8.0] * 5)
    runs = gather("table12")
    frame = times.training_time(runs).frame
    alone, together = frame.iloc[0], frame.iloc[1]
    assert (alone.device, alone.runs, alone.mean_seconds) == ("Test GPU", 2, 37.5)
    assert (together.device, together.runs, together.mean_seconds) == ("Test GPU, 5 at once", 2, 102.5)
    assert times.devices(runs[NAME]) == "on Test GPU and Test GPU, 5 at once"
    assert times.devices(runs["tiny_imagenet/hypermask-t"]) == "on any device"


def test_own_runs_have_rows_of_their_own(root):
    write_record(root / "records", NAME, 1)
    write_record(root / "runs", NAME, 1)
    frame = times.training_time(gather("table12", own_runs=True)).frame
    assert list(frame[frame.benchmark == "split_mnist"].whose) == ["ours", "yours"]
    frame = times.training_time(gather("table12")).frame
    assert list(frame[frame.benchmark == "split_mnist"].whose) == ["ours"]


def test_clock():
    assert [times.clock(seconds) for seconds in (0.4, 59.6, 3599.7, 14402)] == [
        "00:00:00",
        "00:01:00",
        "01:00:00",
        "04:00:02",
    ]


def test_saved_benches_are_read_and_broken_ones_left_out_with_a_warning(root):
    folder = saved_benches.folder()
    assert folder == paths.records() / "bench"
    assert times.benches("recorded") == []
    files.write_atomic(folder / "permuted_mnist" / "test-gpu.json", files.pretty_json(made_up_bench()))
    files.write_atomic(folder / "split_mnist" / "newer.json", json.dumps({"schema": 2}).encode())
    files.write_atomic(folder / "split_mnist" / "torn.json", b"{")
    with pytest.warns(UserWarning, match=r"split_mnist/(newer|torn)\.json is left out: it is no bench") as caught:
        found = times.benches("recorded")
    assert len(caught) == 2
    assert found == [made_up_bench()]


def test_the_report_sets_the_released_loop_beside_the_reference_and_names_what_is_missing():
    lines = times.report([made_up_bench()]).splitlines()
    assert lines[0] == "permuted_mnist, Test GPU: milliseconds per iteration, medians of turns, 30 in all"
    assert lines[1].split("  ")[0] == "task"
    assert lines[2].split() == ["1", "66", "64.0", "21.0", "4.0", "15.0", "0.61", "4001", "/", "4001", "/", "4001"]
    assert lines[3].split()[:3] == ["2", "–", "68.0"]
    assert "66 ms at task 1 on one H100, 87 ms at task 10 on one H100" in lines[5]
    assert lines[6].startswith("speedup: reference over fused; the reference is our own plain loop, not the released")
    assert lines[7].startswith("bandwidth share: time of 10 passes ") and "2800.0 GB/s" in lines[7]
    assert lines[8].startswith("R: what L_output penalises, the change of earlier tasks' outputs")
    assert (
        lines[9] == "task 10: R = D U + W* E, |W* E| / |R| = 12.5; relative error of R in float32 2.0e-06, TF32 5.0e-03"
    )
    assert lines[-1] == "split_mnist: no bench yet; to make one: hypermask bench split_mnist --tasks 1 5 --save"


def test_times_of_a_busy_machine_say_so():
    quiet = times.describe(made_up_bench())
    assert times.describe(made_up_bench(others_cpu_share=None)) == quiet
    busy = times.describe(made_up_bench(others_cpu_share=0.38))
    assert busy == f"{quiet}\nnot an idle machine: other programs used 38% of a core meanwhile"


def test_growth_counts_from_the_second_task():
    lines = times.growth(made_up_bench()).splitlines()
    assert lines[1].split() == ["task", "1", "task", "2", "task", "10", "task", "10", "/", "task", "2"]
    assert lines[4].split() == ["fused", "ms", "4.0", "4.0", "4.2", f"{4.2 / 4.04:.2f}"]
    assert lines[7].split() == ["fused", "MB", "4001.0", "4002.0", "4010.0", "1.00"]
    on_cpu = times.growth(made_up_bench(device="cpu")).splitlines()
    assert len(on_cpu) == 6 and on_cpu[-1] == "peak memory is measured on a GPU only"


def test_the_smoke_profile_measures_stand_ins():
    found = times.benches("smoke")
    assert [bench["benchmark"] for bench in found] == list(times.COMMANDS)
    assert times.describe(found[0]).startswith("smoke stand-in of split_mnist, ")
