import math

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
        ("split_cifar100/hypermask-f", 699_066, 70_620_666),
        ("split_cifar100_5x20/hypermask-t", 700_356, 70_750_956),
        ("tiny_imagenet/hypermask-f", 698_421, 140_474_221),
    ],
)
def test_parameters(name, target, hypernetwork):
    config = experiments.get(name).config
    assert needs.target_parameters(config) == target
    assert needs.hypernetwork_parameters(config) == hypernetwork


def test_the_shapes_are_those_of_the_benchmarks():
    from hypermask import benchmarks

    for name in ("made_shapes", "permuted_mnist", "split_digits", "split_mnist"):
        benchmark, shape = benchmarks.FACTORIES[name](), needs._SHAPES[name]
        assert math.prod(benchmark.input_shape) == shape.pixels
        assert (benchmark.image_shape[0], benchmark.classes_per_task) == (shape.channels, shape.classes)
        sizes = [len(task.train) + len(task.validation) for task in map(benchmark.task, range(benchmark.tasks))]
        assert min(sizes) == shape.per_task
    assert sorted(needs._SHAPES) == sorted(benchmarks.FACTORIES)


def test_the_shapes_of_the_photographs():
    from hypermask.benchmarks import cifar100_files, tiny_imagenet_files

    for name, files, tests in (
        ("split_cifar100", cifar100_files, "test"),
        ("split_cifar100_5x20", cifar100_files, "test"),
        ("tiny_imagenet", tiny_imagenet_files, "val"),
    ):
        shape = needs._SHAPES[name]
        assert (shape.channels, shape.pixels) == (files.SHAPE[0], math.prod(files.SHAPE))
        assert shape.images == files.CLASSES * (files.PER_CLASS["train"] + files.PER_CLASS[tests])
        assert shape.per_task == shape.classes * files.PER_CLASS["train"]


@pytest.mark.parametrize("stem", ["conv3", "conv3-pool", "conv7-pool"])
@pytest.mark.parametrize("widths", ["16,16,32,64,128", "4,8,8,8,16"])
def test_a_resnet_has_as_many_parameters_as_counted(stem, widths):
    from hypermask.model import HyperMask

    changes = [f"target_stem={stem}", f"target_hidden={widths}", "hypernetwork_hidden=3"]
    config = experiments.get("split_cifar100/hypermask-f").config.override(changes)
    model = HyperMask.from_config(config.method, tasks=1, input_shape=(3, 32, 32), classes=10, seed=1)
    assert model.masked[-1].stop == needs.target_parameters(config)


def test_images_that_are_not_padded_make_a_smaller_network():
    padded = experiments.get("permuted_mnist_10/hypermask-t").config
    standardised = padded.override(["pixels=standardised"])
    assert needs.target_parameters(padded) - needs.target_parameters(standardised) == (1024 - 784) * 1000


def test_a_length_in_epochs_counts_the_iterations():
    found = needs.needs(experiments.get("split_cifar100/hypermask-f"))
    assert found.minutes == pytest.approx(142_000 * 10 * 70_620_666 * 4 / 3e12 / 60)


def test_memory_is_four_copies_of_the_output_layer_and_the_images_whatever_the_number_of_tasks():
    ten = needs.gpu_memory_mb(experiments.get("permuted_mnist_10/hypermask-t").config)
    hundred = needs.gpu_memory_mb(experiments.get("permuted_mnist_100/hypermask-t").config)
    assert ten == pytest.approx((4 * 2_036_010 * 101 * 4 + 70_000 * 784) / 2**20)
    assert hundred == ten


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


def test_a_changed_setting_is_taken_for_as_long_as_the_main_one_until_it_is_measured():
    changed = experiments.get("split_mnist/hypermask-t").override(["beta=0.01"])
    assert "a bound" in needs.needs(changed).basis
    records.write(payload(), None, paths.records())
    assert needs.needs(changed).basis == "like the main setting, measured: 5.0 min on Test CPU (one run)"
    assert needs.needs(changed).minutes == pytest.approx(302.5 / 60)
    records.write(payload(overrides=["beta=0.01"], task_seconds=[120.0] * 5), None, paths.records())
    assert needs.needs(changed).basis == "measured: 10.0 min on Test CPU (one run)"


def test_runs_that_shared_the_device_count_only_where_none_was_alone():
    environment = payload()["environment"]
    for seed in (1, 2):
        shared = payload(seed=seed, environment=environment | {"seeds_at_once": 5}, task_seconds=[180.0] * 5)
        records.write(shared, None, paths.records())
    experiment = experiments.get("split_mnist/hypermask-t")
    assert needs.needs(experiment).basis == "measured: 15.0 min on Test CPU, 5 at once (mean of 2 runs)"
    older = {key: value for key, value in environment.items() if key != "seeds_at_once"}
    records.write(payload(seed=3, environment=older), None, paths.records())
    assert needs.needs(experiment).basis == "measured: 5.0 min on Test CPU (one run)"


def test_unfinished_runs_give_no_time():
    records.write(payload(status="diverged"), None, paths.records())
    assert "a bound" in needs.needs(experiments.get("split_mnist/hypermask-t")).basis
