import pytest
from payloads import payload

from hypermask import experiments, needs, paths, records


@pytest.fixture(autouse=True)
def _own_root(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))


@pytest.mark.parametrize(
    ("name", "target", "hypernetwork"),
    [
        ("permuted_mnist_10/hypermask-t", 2_036_010, 205_649_610),
        ("split_mnist/hypermask-t", 475_202, 12_359_127),
    ],
)
def test_parameters(name, target, hypernetwork):
    config = experiments.get(name).config
    assert needs.target_parameters(config) == target
    assert needs.hypernetwork_parameters(config) == hypernetwork


def test_the_shapes_are_those_of_the_benchmarks():
    from hypermask import benchmarks

    for name, shape in needs._SHAPES.items():
        benchmark = benchmarks.FACTORIES[name](tasks=2)
        pixels = 1
        for size in benchmark.input_shape:
            pixels *= size
        assert (pixels, benchmark.classes_per_task) == (shape.pixels, shape.classes)


def test_memory_grows_with_the_previous_tasks():
    ten = needs.gpu_memory_mb(experiments.get("permuted_mnist_10/hypermask-t").config)
    hundred = needs.gpu_memory_mb(experiments.get("permuted_mnist_100/hypermask-t").config)
    assert ten == pytest.approx((5 * 2_036_010 * 101 * 4 + 4 * 9 * 2_036_010 * 4 + 70_000 * 784) / 2**20)
    assert hundred - ten == pytest.approx(4 * 90 * 2_036_010 * 4 / 2**20)


def test_without_runs_the_time_is_a_bound_and_says_so():
    found = needs.needs(experiments.get("permuted_mnist_10/hypermask-t"))
    assert found.minutes == pytest.approx(50_000 * 10 * 205_649_610 * 4 / 3e12 / 60)
    assert found.basis == ("at least 2.3 min, a bound and no measurement: steps x 10 passes over the weights at 3 TB/s")


def test_with_runs_the_time_is_measured_and_names_the_device():
    for seed in (1, 2):
        records.write(payload(seed=seed), None, paths.records())
    found = needs.needs(experiments.get("split_mnist/hypermask-t"))
    assert found.minutes == pytest.approx(302.5 / 60)
    assert found.basis == "measured: 5.0 min on Test CPU (mean of 2 runs)"
    assert "a bound" in needs.needs(experiments.get("split_mnist/hypermask-t").override(["beta=0.01"])).basis


def test_unfinished_runs_give_no_time():
    records.write(payload(status="diverged"), None, paths.records())
    assert "a bound" in needs.needs(experiments.get("split_mnist/hypermask-t")).basis
