import dataclasses

import pytest

from hypermask import experiments
from hypermask.errors import HyperMaskError
from hypermask.experiments import EXPERIMENTS

NAMES = (
    "split_mnist/hypermask-t",
    "split_mnist/hypermask-f",
    "permuted_mnist_10/hypermask-t",
    "permuted_mnist_10/hypermask-f",
    "permuted_mnist_100/hypermask-t",
)

CIFAR100 = "split_cifar100/hypermask-t"

# The paper, appendix "Architecture details".
PERMUTED = {
    "benchmark.name": "permuted_mnist",
    "benchmark.validation": 5000,
    "benchmark.augment": False,
    "method.target_hidden": (1000, 1000),
    "method.embedding_size": 24,
    "method.hypernetwork_hidden": (100, 100),
    "method.p": 0.0,
    "training.iterations": 5000,
}
SPLIT = {
    "benchmark.name": "split_mnist",
    "benchmark.tasks": 5,
    "benchmark.validation": 1000,
    "benchmark.augment": True,
    "method.target_hidden": (400, 400),
    "method.embedding_size": 128,
    "method.hypernetwork_hidden": (25, 25),
    "method.p": 30.0,
    "training.iterations": 2000,
}
TRAINABLE = {"method.trainable_target": True, "method.lam": 1e-3, "method.l1": "masked"}
FIXED = {"method.trainable_target": False, "method.lam": 0.0, "method.beta": 1e-4}
EVERYWHERE = {
    "method.name": "hypermask",
    "method.target": "mlp",
    "method.target_activation": "relu",
    "method.output_regularizer": "paper",
    "training.batch_size": 128,
    "training.lr": 1e-3,
    "training.epochs": None,
    "training.scheduler": "none",
    "training.model_choice": "last",
}
PRINTED = {
    NAMES[0]: EVERYWHERE | SPLIT | TRAINABLE | {"method.beta": 1e-3},
    NAMES[1]: EVERYWHERE | SPLIT | FIXED,
    NAMES[2]: EVERYWHERE | PERMUTED | TRAINABLE | {"benchmark.tasks": 10, "method.beta": 5e-4},
    NAMES[3]: EVERYWHERE | PERMUTED | FIXED | {"benchmark.tasks": 10},
    NAMES[4]: EVERYWHERE | PERMUTED | TRAINABLE | {"benchmark.tasks": 100, "method.beta": 5e-4},
}


def of_a_record(name, *changes):
    return experiments.get(name).override(list(changes)).config.to_dict()


def test_changes_lead_to_a_records_configuration_in_the_words_it_was_run_with():
    config = of_a_record(CIFAR100, "p=70.0", "tasks=1")
    found = experiments.leading_to(CIFAR100, config, ["p=70.0", "tasks=1"])
    assert (found.config.to_dict(), found.overrides) == (config, ("p=70.0", "tasks=1"))
    assert experiments.leading_to(CIFAR100, of_a_record(CIFAR100), []).overrides == ()


@pytest.mark.parametrize(
    "changes",
    [
        ("target_stem=conv3-pool", "tasks=1"),
        ("hypernetwork_hidden=25,25", "stratified=false"),
        ("iterations=300", "tasks=2"),
        ("lr=0.01", "validation=100"),
    ],
)
def test_a_value_that_was_the_named_one_then_is_a_change_today(changes):
    config = of_a_record(CIFAR100, *changes)
    # The record tells the last alone, or another value than it has.
    for recorded in ([changes[-1]], ["p=70"]):
        found = experiments.leading_to(CIFAR100, config, recorded)
        assert (found.config.to_dict(), found.overrides) == (config, changes)


@pytest.mark.parametrize("recorded", [["target_hidden=100,100"], ["gone=1"]])
def test_changes_that_cannot_be_made_today_are_left_aside(recorded):
    changes = ("target=mlp", "target_hidden=100,100", "target_stem=none")
    found = experiments.leading_to(CIFAR100, of_a_record(CIFAR100, *changes), recorded)
    assert found.overrides == changes


def test_no_changes_lead_to_another_kind_of_configuration():
    with pytest.raises(HyperMaskError, match=r"^no changes of split_mnist/hypermask-t make the configuration of this"):
        experiments.leading_to("split_mnist/hypermask-t", of_a_record("split_mnist/hnet"), [])


@pytest.mark.parametrize("name", NAMES)
def test_values_are_the_papers(name):
    config = experiments.get(name).config
    found = {
        key: getattr(getattr(config, section), field)
        for key, (section, _, field) in ((key, key.partition(".")) for key in PRINTED[name])
    }
    assert found == PRINTED[name]


def test_runs_are_as_many_as_the_paper_averages():
    assert [len(experiments.get(name).seeds) for name in NAMES] == [5, 5, 5, 5, 3]
    assert experiments.get(NAMES[4]).seeds == (1, 2, 3)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_value_has_its_place_in_the_paper(name):
    experiment = EXPERIMENTS[name]
    assert experiment.name == name
    keys = {key for section in experiment.config.to_dict().values() for key in section} - {"name"}
    assert sorted(keys - set(experiment.places)) == []
    fields = {
        field.name
        for section in dataclasses.fields(experiment.config)
        for field in dataclasses.fields(getattr(experiment.config, section.name))
    }
    assert sorted(set(experiment.places) - fields) == []
    assert all(place.strip() for place in experiment.places.values())


def test_no_two_experiments_share_a_configuration():
    hashes = [experiment.config.hash for experiment in EXPERIMENTS.values()]
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize("wrong", ["split_mnist/hypermask", "split-mnist/hypermask-t", "splitmnist"])
def test_an_unknown_name_is_answered_with_close_ones(wrong):
    with pytest.raises(HyperMaskError) as caught:
        experiments.get(wrong)
    text = str(caught.value)
    assert text.startswith(f"unknown experiment {wrong!r}; did you mean ")
    assert "split_mnist/hypermask-t" in text
    assert text.endswith("?")


def test_a_name_unlike_any_other_is_answered_with_all():
    with pytest.raises(HyperMaskError) as caught:
        experiments.get("zzz")
    assert all(name in str(caught.value) for name in EXPERIMENTS)


def test_an_override_keeps_the_name_and_is_remembered_in_order():
    named = experiments.get("split_mnist/hypermask-t")
    changed = named.override(["p=0", "beta=0.01"])
    assert changed.name == named.name
    assert changed.overrides == ("beta=0.01", "p=0")
    assert changed.config == named.config.override(["beta=0.01", "p=0"])
    assert changed.config.hash != named.config.hash


def test_overrides_add_up_and_a_later_value_replaces_an_earlier_one():
    """What a record remembers makes its configuration from the named one."""
    named = experiments.get("split_mnist/hypermask-t")
    changed = named.override(["p=70", "beta=0.01", "epochs=2"]).override(["p=50", "lam=0.1", "iterations=9"])
    assert changed.overrides == ("beta=0.01", "iterations=9", "lam=0.1", "p=50")
    assert named.override(list(changed.overrides)).config == changed.config
    assert (changed.config.training.iterations, changed.config.training.epochs) == (9, None)


def test_an_override_to_the_same_value_is_the_named_configuration():
    named = experiments.get("split_mnist/hypermask-t")
    assert named.override(["beta=0.001"]) is named
    assert named.override([]) is named


@pytest.mark.parametrize("name", NAMES)
def test_the_smoke_stand_in_is_another_configuration_of_the_same_method(name):
    full, small = experiments.get(name), experiments.smoke(name)
    assert (small.name, small.seeds) == (name, (1, 2))
    assert small.config.hash != full.config.hash
    assert small.title.endswith("(smoke profile)")
    assert small.config.benchmark.name in ("split_digits", "permuted_mnist")
    assert small.config.training.iterations * small.config.benchmark.tasks <= 500
    sizes = {"target_hidden", "embedding_size", "hypernetwork_hidden"}
    kept = {field.name for field in dataclasses.fields(full.config.method)} - sizes
    assert {key: getattr(small.config.method, key) for key in kept} == {
        key: getattr(full.config.method, key) for key in kept
    }


def test_smoke_of_an_unknown_name_is_one_sentence():
    with pytest.raises(HyperMaskError, match=r"unknown experiment 'nope'; did you mean .*\?$"):
        experiments.smoke("nope")
