import dataclasses
import json
from dataclasses import dataclass, field, replace

import pytest

from hypermask import experiments
from hypermask.config import (
    BenchmarkConfig,
    Config,
    HyperMaskConfig,
    TrainingConfig,
    section_from_dict,
    section_to_dict,
)
from hypermask.errors import HyperMaskError

# Committed records hang on these: a change here orphans hours of training.
HASHES = {
    "split_mnist/hypermask-t": "02d0e969550462002db6aea21b12e04f49ab7ff6026c40e55bf215cba51d5268",
    "split_mnist/hypermask-f": "209709a509d03472da9ca473701b71844b8f74f4f3ff906725bfc2c5b8574c5e",
    "permuted_mnist_10/hypermask-t": "ce62f398a171a15c7463c646166f114c2ca6413fe0279a8aaba4b401aa7a5725",
    "permuted_mnist_10/hypermask-f": "3847d1c02796778e9d884858fc9a881d0b26aa00a7b335d63d38f13b08778e7c",
    "permuted_mnist_100/hypermask-t": "6eef8125c07900e8b42b4d37575f0b42bbfac34658aa2b9aed1db4e496934f8b",
}
# All named configurations, and all that have records, with their changed values: the name of their folder in records/.
FOLDERS = {
    "permuted_mnist_10/hnet": "a3ea95da1753",
    "permuted_mnist_10/hypermask-f": "3847d1c02796",
    "permuted_mnist_10/hypermask-t [hypernetwork_hidden=25,25]": "9a3c3ac41c5e",
    "permuted_mnist_10/hypermask-t": "ce62f398a171",
    "permuted_mnist_10/wsn [c=70]": "e9ba91095823",
    "permuted_mnist_10/wsn [c=50]": "75a5f2f8420e",
    "permuted_mnist_10/wsn [c=3]": "d62501d4fca3",
    "permuted_mnist_10/wsn": "017ca6498c29",
    "permuted_mnist_10/wsn [c=10]": "53a5775f86fd",
    "permuted_mnist_10/wsn [c=5]": "cafafa63d192",
    "permuted_mnist_10/wsn [c=3 pixels=padded]": "4df52b9e643a",
    "permuted_mnist_10/wsn [pixels=padded]": "6134b439366d",
    "split_cifar100/hypermask-f [norm_parameters=always tasks=1]": "16bfed0064d6",
    "split_cifar100/hypermask-f [statistics=cifar100 tasks=1]": "5c60309e010c",
    "split_cifar100/hypermask-f [stratified=false tasks=1]": "ada870ec2eb0",
    "split_cifar100/hypermask-f [tasks=1]": "dc3286372fe8",
    "split_cifar100/hypermask-t [target_stem=conv3 tasks=1]": "26983321f7ed",
    "split_cifar100/hypermask-t [target_stem=conv7-pool tasks=1]": "599e220a56df",
    "split_cifar100/hypermask-t [target_stem=conv3-pool tasks=1]": "d6f94b39ea5f",
    "split_cifar100_5x20/fecam": "d437ff94e820",
    "split_cifar100_5x20/fetril": "373abcd45e76",
    "split_cifar100_5x20/ncm": "f596fe7293e1",
    "split_mnist/hnet": "21b9ea00cb9f",
    "split_mnist/hnet [initialisation=hypnettorch]": "ae59e21cd5e1",
    "split_mnist/hypermask-f": "209709a509d0",
    "split_mnist/hypermask-t": "02d0e9695504",
    "split_mnist/hypermask-t [batch_size=64]": "0ead09ecaa32",
    "split_mnist/hypermask-t [embedding_size=96]": "43cbe6fdc124",
    "split_mnist/hypermask-t [output_regularizer=released-code]": "4bf402e1c607",
    "split_mnist/hypermask-t [embedding_size=24]": "54154ffbb4a0",
    "split_mnist/hypermask-t [p=70]": "6ecdb8d7e939",
    "split_mnist/hypermask-t [hypernetwork_hidden=50,50]": "74153d1e5251",
    "split_mnist/hypermask-t [beta=0.01]": "8b8d74c7b75b",
    "split_mnist/hypermask-t [target_activation=elu]": "929a4fecabfa",
    "split_mnist/hypermask-t [l1=plain]": "ba3189504e78",
    "split_mnist/hypermask-t [hypernetwork_hidden=10,10]": "e78594e87323",
    "split_mnist/hypermask-t [embedding_size=72]": "f2e6a4bf0846",
    "split_mnist/hypermask-t [p=0]": "fa6c4d4a8a19",
    "split_mnist/hypermask-t [lam=0.0001]": "fbb042c01ce1",
    "permuted_mnist_100/hypermask-t": "6eef8125c079",
    "split_cifar100/hypermask-t": "bcf728614699",
    "split_cifar100/hypermask-f": "c7ba561bca71",
    "split_cifar100_5x20/hypermask-t": "18147917b488",
    "split_cifar100_5x20/hypermask-f": "8463a6fadbf8",
    "tiny_imagenet/hypermask-t": "6ebad3c68611",
    "tiny_imagenet/hypermask-f": "8e2ca4b0cdbd",
    "split_cifar100/wsn": "891089e893f2",
    "tiny_imagenet/wsn": "5dae858512b0",
}


@pytest.fixture
def config() -> Config:
    return experiments.get("split_mnist/hypermask-t").config


@pytest.mark.parametrize("name", HASHES)
def test_hashes_of_named_configurations_never_change(name):
    assert experiments.get(name).config.hash == HASHES[name]


@pytest.mark.parametrize("label", FOLDERS)
def test_folders_of_records_never_change(label):
    name, _, changes = label.partition(" [")
    assert experiments.get(name).override(changes.rstrip("]").split()).config.hash[:12] == FOLDERS[label]


def test_all_named_configurations_and_all_that_have_records_are_held(project_root):
    assert set(experiments.EXPERIMENTS) <= set(FOLDERS)
    assert {path.parent.name for path in (project_root / "records").glob("*_*/*/*/seed*.json")} <= set(FOLDERS.values())


def test_the_hash_is_that_of_the_json_a_record_holds(config):
    import hashlib

    text = json.dumps(config.to_dict(), sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == config.hash


@pytest.mark.parametrize("name", HASHES)
def test_a_configuration_survives_json(name):
    config = experiments.get(name).config
    again = Config.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again == config
    assert again.hash == config.hash


# -- overriding ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("assignment", "section", "value"),
    [
        ("beta=0.01", "method", 0.01),
        ("beta=1e-2", "method", 0.01),
        ("p=0", "method", 0.0),
        ("l1=plain", "method", "plain"),
        ("output_regularizer=released-code", "method", "released-code"),
        ("trainable_target=false", "method", False),
        ("target_hidden=100,50", "method", (100, 50)),
        ("target_hidden=[100, 50]", "method", (100, 50)),
        ("target_hidden=7", "method", (7,)),
        ("hypernetwork_hidden=", "method", ()),
        ("tasks=2", "benchmark", 2),
        ("augment=false", "benchmark", False),
        ("iterations=3", "training", 3),
        ("lr=0.1", "training", 0.1),
    ],
)
def test_an_override_changes_one_value_and_the_hash(config, assignment, section, value):
    changed = config.override([assignment])
    key = assignment.partition("=")[0]
    assert getattr(getattr(changed, section), key) == value
    assert type(getattr(getattr(changed, section), key)) is type(value)
    assert changed.hash != config.hash
    put_back = replace(getattr(changed, section), **{key: getattr(getattr(config, section), key)})
    assert replace(changed, **{section: put_back}) == config


def test_overrides_that_change_nothing_keep_the_hash(config):
    assert config.override([]).hash == config.hash
    assert config.override(["beta=0.001", "p=30", "target_hidden=400,400"]).hash == config.hash


def test_one_and_one_point_zero_are_one_configuration(config):
    assert config.override(["beta=1"]).hash == config.override(["beta=1.0"]).hash
    assert config.override(["lr=1"]).hash == config.override(["lr=1.0"]).hash
    assert replace(config, method=replace(config.method, beta=1)).hash == config.override(["beta=1.0"]).hash
    values = config.to_dict()
    values["method"]["p"] = 30
    assert Config.from_dict(values).hash == config.hash


@pytest.mark.parametrize(
    ("assignments", "sentence"),
    [
        (["beta"], "'beta' is not an assignment; write key=value, for example beta=0.01."),
        (["bta=1"], "unknown key 'bta' in 'bta=1'; did you mean beta?"),
        (["name=permuted_mnist"], "unknown key 'name' in 'name=permuted_mnist'; did you mean "),
        (["beta=x"], "beta=x cannot be read; expected a number."),
        (["beta="], "beta= cannot be read; expected a number."),
        (["beta=true"], "beta is True; expected a number."),
        (["beta=null"], "beta is None; expected a number."),
        (["beta=NaN"], "beta is nan; expected a number."),
        (["lr=Infinity"], "lr is inf; expected a number."),
        (["lr=1e999"], "lr is inf; expected a number."),
        (["beta=1", "beta=2"], "beta is given twice; give each key once."),
        (["iterations=1.5"], "iterations is 1.5; expected a whole number."),
        (["iterations=many"], "iterations=many cannot be read; expected a whole number."),
        (["iterations=true"], "iterations is True; expected a whole number."),
        (["tasks=2.0"], "tasks is 2.0; expected a whole number."),
        (["augment=1"], "augment is 1; expected true or false."),
        (["augment=yes"], "augment=yes cannot be read; expected true or false."),
        (["target_hidden=wide"], "target_hidden=wide cannot be read; expected whole numbers separated by commas."),
        (["target_hidden=400,4.5"], "target_hidden is 4.5; expected a whole number."),
        (["tasks=0"], "tasks is 0; expected at least 1."),
        (["validation=0"], "validation is 0; expected at least 1 image."),
        (["embedding_size=0"], "embedding_size is 0; expected at least 1."),
        (["hypernetwork_hidden=25,0"], "hypernetwork_hidden is (25, 0); expected positive layer widths."),
        (["target_hidden=-1"], "target_hidden is (-1,); expected positive layer widths."),
        (["target_activation=tanh"], "target_activation is 'tanh'; expected relu or elu."),
        (["beta=-1"], "beta is -1.0; expected at least 0."),
        (["lam=-0.1"], "lam is -0.1; expected at least 0."),
        (["p=100"], "p is 100.0; expected a percentage from 0 to below 100."),
        (["p=-1"], "p is -1.0; expected a percentage from 0 to below 100."),
        (["l1=none"], "l1 is 'none'; expected masked or plain."),
        (["output_regularizer=square"], "output_regularizer is 'square'; expected paper or released-code."),
        (["iterations=0"], "iterations is 0; expected at least 1."),
        (["epochs=0"], "epochs is 0; expected at least 1."),
        (["batch_size=0"], "batch_size is 0; expected at least 1."),
        (["lr=0"], "lr is 0.0; expected a positive learning rate."),
        (["scheduler=step"], "scheduler is 'step'; expected none, plateau or cosine."),
        (["optimizer=lion"], "optimizer is 'lion'; expected adam or sgd."),
        (["momentum=0.9"], "momentum is 0.9; expected 0, or with sgd below 1."),
        (["optimizer=sgd", "momentum=1"], "momentum is 1.0; expected 0, or with sgd below 1."),
        (["weight_decay=0.1"], "weight_decay is 0.1; expected 0, or more with sgd."),
        (["statistics=mnist"], "statistics is 'mnist'; expected default, imagenet or cifar100."),
        (["pixels=raw"], "pixels is 'raw'; expected padded or standardised."),
        (["norm_parameters=never"], "norm_parameters is 'never'; expected with-target or always."),
        (["lr_factor=1"], "lr_factor is 1.0; expected between 0 and 1."),
        (["lr_patience=-1"], "lr_patience is -1; expected at least 0 epochs."),
        (["lr_floor=-1"], "lr_floor is -1.0; expected at least 0."),
        (["model_choice=best"], "model_choice is 'best'; expected last or lowest-validation-loss."),
        (
            ["iterations=5", "epochs=1"],
            "training has iterations=5 and epochs=1; give exactly one of them.",
        ),
        (["iterations=null"], "training has iterations=None and epochs=None; give exactly one of them."),
    ],
)
def test_bad_overrides_are_one_sentence(config, assignments, sentence):
    with pytest.raises(HyperMaskError) as caught:
        config.override(assignments)
    text = str(caught.value)
    assert text.startswith(sentence) if sentence.endswith("did you mean ") else text == sentence


def test_hnet_is_trained_by_adam_alone():
    with pytest.raises(HyperMaskError, match="HNET looks ahead by a step of Adam; sgd is no choice here"):
        experiments.get("split_mnist/hnet").override(["optimizer=sgd"])


def test_a_key_unlike_any_other_is_answered_with_all_keys(config):
    with pytest.raises(
        HyperMaskError, match=r"unknown key 'quux' in 'quux=1'; did you mean augment, .*weight_decay\?$"
    ):
        config.override(["quux=1"])


# -- the length of training ---------------------------------------------------------------------------------


def test_setting_one_length_clears_the_other(config):
    by_epochs = config.override(["epochs=2"])
    assert (by_epochs.training.iterations, by_epochs.training.epochs) == (None, 2)
    by_iterations = by_epochs.override(["iterations=2000"])
    assert by_iterations == config


def test_exactly_one_length_is_given():
    with pytest.raises(HyperMaskError, match="iterations=None and epochs=None; give exactly one of them"):
        TrainingConfig()
    with pytest.raises(HyperMaskError, match="iterations=1 and epochs=1; give exactly one of them"):
        TrainingConfig(iterations=1, epochs=1)


def test_configurations_are_frozen(config):
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.method.beta = 1.0


# -- reading back -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda values: values.pop("training"),
            "a configuration has the sections benchmark, method, training; found benchmark, method.",
        ),
        (
            lambda values: values.update(extra={}),
            "a configuration has the sections benchmark, method, training; found benchmark, extra, method, training.",
        ),
        (
            lambda values: values["method"].update(name="hypermusk"),
            "unknown method 'hypermusk' in a configuration; known are hypermask",
        ),
        (
            lambda values: values["benchmark"].update(colour="red"),
            "unknown configuration key 'colour'; known are name, tasks, validation, augment",
        ),
        (lambda values: values["benchmark"].pop("tasks"), "the configuration lacks tasks; give a value for each."),
        (lambda values: values["method"].update(beta="0.1"), "beta is '0.1'; expected a number."),
        (lambda values: values["method"].update(target=3), "target is 3; expected text."),
        (
            lambda values: values["method"].update(target_hidden=400),
            "target_hidden is 400; expected whole numbers separated by commas.",
        ),
    ],
)
def test_foreign_configurations_are_refused_in_one_sentence(config, change, sentence):
    values = config.to_dict()
    change(values)
    with pytest.raises(HyperMaskError) as caught:
        Config.from_dict(values)
    assert str(caught.value).startswith(sentence)


# -- fields added later -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Later:
    """A part of a configuration to which `pool` was added after the first records."""

    width: int
    pool: bool = field(default=True, metadata={"before": False})


def test_a_later_field_is_left_out_at_the_value_that_means_before():
    assert section_to_dict(Later(3, pool=False)) == {"width": 3}
    assert section_to_dict(Later(3)) == {"width": 3, "pool": True}


def test_a_section_is_read_back_without_unknown_or_missing_keys():
    assert section_from_dict(Later, {"width": 3, "pool": True}) == Later(3)
    with pytest.raises(HyperMaskError, match="the configuration lacks width"):
        section_from_dict(Later, {"pool": True})


def test_a_record_from_before_a_field_keeps_its_meaning():
    """The value that is left out is the one that is read back, whatever new configurations default to."""
    old = Later(3, pool=False)
    assert section_from_dict(Later, section_to_dict(old)) == old


@pytest.mark.parametrize("section", [BenchmarkConfig, HyperMaskConfig, TrainingConfig])
def test_every_later_field_reads_back_as_before(section):
    """No field of today may change what a committed configuration means."""
    config = experiments.get("split_mnist/hypermask-t").config
    part = next(part for part in (config.benchmark, config.method, config.training) if isinstance(part, section))
    for f in dataclasses.fields(section):
        if "before" in f.metadata:
            assert f.name not in section_to_dict(replace(part, **{f.name: f.metadata["before"]}))
    assert section_from_dict(section, section_to_dict(part)) == part
