import json

import pytest
import torch
import torch.nn.functional as F
from small_methods import FixedBatches
from torch import nn
from torch.func import functional_call

from hypermask import checkpoints, experiments, methods, objective, records
from hypermask.benchmarks import split_digits
from hypermask.config import TrainingConfig
from hypermask.engine import make
from hypermask.errors import HyperMaskError
from hypermask.evaluation import evaluate, sample_logits
from hypermask.model import HyperMask
from hypermask.targets import MLP
from hypermask.training import run_experiment, train

SMALL = {"tasks": 3, "embedding_size": 4, "hypernetwork_hidden": (6, 5)}


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def small(target: nn.Module | None = None, **values) -> HyperMask:
    torch.manual_seed(11)
    return HyperMask(MLP(6, (5,), 3) if target is None else target, **SMALL | values)


def with_masks_of_one(model: HyperMask) -> HyperMask:
    """The model with a hypernetwork whose output is 100 everywhere, so that every |tanh| is exactly 1."""
    weight, bias = model.output_layer()
    with torch.no_grad():
        weight.zero_()
        bias.fill_(100.0)
    return model


def steps(model: HyperMask, task: int, iterations: int, engine: str = "eager", lr: float = 1e-2) -> list[float]:
    """Train a task on fixed random batches; returns the losses."""
    batches = FixedBatches(random(iterations, 8, 6, seed=task), (torch.arange(8) % 3).expand(iterations, 8))
    model.begin_task(task)
    runner = make(engine, model, task, TrainingConfig(iterations=iterations, lr=lr), iterations, batches)
    losses = [runner.step(iteration).item() for iteration in range(iterations)]
    runner.synchronise()
    model.end_task(task)
    return losses


class Conv(nn.Module):
    """A small convolutional network with batch norm and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3, bias=False)
        self.norm = nn.BatchNorm2d(3)
        self.register_buffer("scale", torch.tensor(3.0))
        self.output = nn.Linear(3 * 36, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        signal = F.relu(self.norm(self.conv(inputs.view(-1, 1, 8, 8))))
        return self.scale * self.output(signal.flatten(1))


class Tied(nn.Module):
    """Two layers that share one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.output = nn.Linear(4, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.output(F.relu(self.second(F.relu(self.first(inputs)))))


# -- the masked network -------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["relu", "elu"])
def test_with_masks_of_one_it_is_hypnettorchs_mlp_on_the_same_weights(activation):
    from hypnettorch import mnets

    model = with_masks_of_one(small(MLP(6, (5, 4), 3, activation), p=30.0).double())
    assert all(bool((mask == 1).all()) for mask in model.masks(1).values())
    function = {"relu": nn.ReLU(), "elu": nn.ELU()}[activation]
    theirs = mnets.MLP(n_in=6, n_out=3, hidden_layers=(5, 4), activation_fn=function, verbose=False).double()
    inputs = random(9, 6, dtype=torch.float64)
    expected = theirs(inputs, weights=list(model.target.parameters()))
    torch.testing.assert_close(model.logits(inputs, 1), expected, rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(model.unmasked_logits(inputs), expected, rtol=1e-13, atol=1e-14)


def test_the_network_of_a_task_by_hand():
    model = small(p=30.0)
    inputs = random(9, 6)
    masks = model.masks(2)
    theta = dict(model.target.named_parameters())
    hidden = F.relu(F.linear(inputs, *(theta[n] * masks[n] for n in ("hidden.0.weight", "hidden.0.bias"))))
    expected = F.linear(hidden, theta["output.weight"] * masks["output.weight"], theta["output.bias"])
    torch.testing.assert_close(model.logits(inputs, 2), expected)
    assert not torch.allclose(model.logits(inputs, 2), model.logits(inputs, 1))


def test_masks_are_the_absolute_tanh_of_the_outputs_sparsified_by_tensor():
    model = small(p=40.0)
    output = model.outputs([1])[0]
    assert (output < 0).any()
    masks = model.masks(1)
    for tensor in model.masked:
        values = output[tensor.start : tensor.stop].view(tensor.shape).tanh().abs()
        kept = masks[tensor.name] != 0
        assert torch.equal(masks[tensor.name][kept], values[kept])
        zeroed = 0 if tensor.name == "output.bias" else 0.4 * values.numel()
        assert abs((~kept).sum().item() - zeroed) <= 1, tensor.name


def test_p_is_the_models_own_unless_given():
    model = small(p=40.0)
    own, given, none = model.masks(0), model.masks(0, 40.0), model.masks(0, 0.0)
    assert all(torch.equal(own[name], given[name]) for name in own)
    assert (none["hidden.0.weight"] != 0).all()
    inputs = random(5, 6)
    assert torch.equal(model.logits(inputs, 0), model.logits(inputs, 0, 40.0))
    assert not torch.equal(model.logits(inputs, 0), model.logits(inputs, 0, 0.0))


def test_the_output_bias_is_neither_sparsified_nor_multiplied():
    model = small(p=95.0)
    assert model.output_bias == "output.bias"
    assert (model.masks(0)["output.bias"] > 0).all()
    with torch.no_grad():
        model.target.output.weight.zero_()
        model.target.output.bias.copy_(torch.tensor([1.0, -2.0, 3.0]))
    assert model.logits(random(4, 6), 0).tolist() == [[1.0, -2.0, 3.0]] * 4


def test_outputs_are_linear_in_the_hidden_vectors():
    model = small().double()
    weight, bias = model.output_layer()
    assert weight.shape == (sum(tensor.shape.numel() for tensor in model.masked), 5)
    torch.testing.assert_close(
        F.linear(model.hidden([2, 0]), weight, bias), model.outputs([2, 0]), rtol=1e-13, atol=1e-15
    )


@pytest.mark.parametrize("hidden", [(), (5,), (6, 5, 4)])
def test_a_hypernetwork_of_any_depth(hidden):
    model = small(hypernetwork_hidden=hidden).double()
    weight, bias = model.output_layer()
    torch.testing.assert_close(F.linear(model.hidden([1]), weight, bias), model.outputs([1]), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("task", [-1, 3])
def test_a_task_that_does_not_exist_is_one_sentence(task):
    model = small()
    for ask in (model.masks, model.begin_task, lambda task: model.logits(random(2, 6), task)):
        with pytest.raises(HyperMaskError) as caught:
            ask(task)
        assert str(caught.value) == f"task {task} does not exist; this model has tasks 0 to 2."


# -- what is masked -----------------------------------------------------------------------------------------


def test_the_layout_covers_every_parameter_in_order():
    model = small()
    assert [(t.name, tuple(t.shape), t.start, t.stop) for t in model.masked] == [
        ("hidden.0.weight", (5, 6), 0, 30),
        ("hidden.0.bias", (5,), 30, 35),
        ("output.weight", (3, 5), 35, 50),
        ("output.bias", (3,), 50, 53),
    ]
    assert model.outputs([0]).shape == (1, 53)


def test_batch_norm_is_excluded_and_uses_the_batchs_statistics():
    model = small(Conv(), p=20.0)
    assert [tensor.name for tensor in model.masked] == ["conv.weight", "output.weight", "output.bias"]
    assert "norm.weight" not in model.masks(0)
    images = random(10, 1, 8, 8) * 5 + 2
    model.train()
    training = model.logits(images, 0)
    model.eval()
    assert torch.equal(model.logits(images, 0), training)
    assert not torch.allclose(model.logits(images[:5], 0), training[:5])
    with torch.no_grad():
        model.target.norm.weight.zero_()
        model.target.norm.bias.fill_(-1.0)
    by_bias = model.target.scale * model.target.output.bias
    torch.testing.assert_close(model.logits(images, 0), by_bias.expand(10, 2))


def test_buffers_are_kept_and_used():
    model = small(Conv())
    images = random(4, 1, 8, 8)
    before = model.logits(images, 0)
    assert model.weights()["target.scale"].item() == 3.0
    model.target.scale.fill_(6.0)
    torch.testing.assert_close(model.logits(images, 0), 2 * before)


def test_tied_parameters_have_one_mask():
    model = small(Tied(), p=25.0)
    names = [tensor.name for tensor in model.masked]
    assert names == ["first.weight", "first.bias", "second.bias", "output.weight", "output.bias"]
    masks, theta = model.masks(1), dict(model.target.named_parameters())
    shared = theta["first.weight"] * masks["first.weight"]
    inputs = random(6, 4)
    hidden = F.relu(F.linear(inputs, shared, theta["first.bias"] * masks["first.bias"]))
    hidden = F.relu(F.linear(hidden, shared, theta["second.bias"] * masks["second.bias"]))
    expected = F.linear(hidden, theta["output.weight"] * masks["output.weight"], theta["output.bias"])
    torch.testing.assert_close(model.logits(inputs, 1), expected)
    assert [name for name in model.weights() if name.endswith("weight") and name.startswith("target")] == [
        "target.first.weight",
        "target.output.weight",
    ]


def test_without_a_final_bias_everything_is_masked():
    model = small(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2, bias=False)), p=50.0)
    assert model.output_bias is None
    masks = model.masks(0)
    assert list(masks) == ["0.weight", "0.bias", "2.weight"]
    assert (masks["2.weight"] == 0).sum() == 3
    inputs = random(5, 4)
    with torch.no_grad():
        model.target[2].weight.copy_(torch.where(masks["2.weight"] == 0, 1e9, model.target[2].weight))
    assert model.logits(inputs, 0).abs().max() < 1e3


def test_a_single_tensor_is_masked():
    model = small(nn.Linear(6, 3, bias=False), p=50.0)
    assert model.output_bias is None
    assert (model.masks(0)["weight"] == 0).sum() == 9


class HeadFirst(nn.Module):
    """Its output layer is not the one that comes last among its modules."""

    def __init__(self, last: nn.Module) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.last = last

    def forward(self, inputs):
        return self.head(self.last(inputs))


@pytest.mark.parametrize("last", [lambda: nn.LayerNorm(4), lambda: nn.PReLU(4)])
def test_an_output_bias_that_cannot_be_told_has_to_be_named(last):
    with pytest.raises(
        HyperMaskError, match=r"^last\.\w+ of HeadFirst is no output bias; name the output layer's with"
    ):
        small(HeadFirst(last()))
    with pytest.raises(HyperMaskError, match=r"^head\.bais of HeadFirst is no output bias; .* \(head\.bias.*or say"):
        small(HeadFirst(last()), output_bias="head.bais")
    assert small(HeadFirst(last()), output_bias=None).output_bias is None
    model = small(HeadFirst(last()), p=90.0, output_bias="head.bias")
    masks, inputs = model.masks(0), random(5, 4)
    masked = {name: dict(model.target.named_parameters())[name] * mask for name, mask in masks.items()}
    expected = functional_call(model.target, masked | {"head.bias": model.target.head.bias}, (inputs,))
    torch.testing.assert_close(model.logits(inputs, 0), expected)


def test_parameters_that_require_no_gradient_stay_as_they_are():
    target = MLP(6, (4,), 3)
    target.hidden[0].requires_grad_(False)
    model = small(target)
    before = {name: tensor.clone() for name, tensor in model.weights().items()}
    steps(model, 0, 5)
    steps(model, 1, 5)
    moved = {name for name, tensor in model.weights().items() if not torch.equal(tensor, before[name])}
    assert not any(name.startswith("target.hidden.0") for name in moved)
    assert {"target.output.weight", "target.output.bias"} <= moved


class Integers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.arange(3), requires_grad=False)


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        (
            lambda: nn.Sequential(nn.LazyLinear(3)),
            "Sequential has the uninitialised parameter 0.weight; run it on one batch before masking it.",
        ),
        (
            nn.Flatten,
            "Flatten has no parameters outside batch-norm layers; pass a network with weights to mask.",
        ),
        (
            lambda: nn.Sequential(nn.BatchNorm1d(4)),
            "Sequential has no parameters outside batch-norm layers; pass a network with weights to mask.",
        ),
        (Integers, "Integers's parameter table is torch.int64; masks need floating-point parameters."),
    ],
)
def test_networks_that_cannot_be_masked_are_refused_in_one_sentence(target, sentence):
    with pytest.raises(HyperMaskError) as caught:
        small(target())
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"tasks": 0}, "tasks is 0; expected a whole number, at least 1."),
        ({"tasks": 2.0}, "tasks is 2.0; expected a whole number, at least 1."),
        ({"hypernetwork_hidden": 25}, "hypernetwork_hidden is 25; expected whole numbers separated by commas."),
        ({"p": 100}, "p is 100.0; expected a percentage from 0 to below 100."),
        ({"beta": -1}, "beta is -1.0; expected at least 0."),
        ({"embedding_size": 0}, "embedding_size is 0; expected at least 1."),
        ({"l1": "both"}, "l1 is 'both'; expected masked or plain."),
    ],
)
def test_bad_settings_are_one_sentence(values, sentence):
    with pytest.raises(HyperMaskError) as caught:
        small(**values)
    assert str(caught.value) == sentence


def test_what_a_record_says_about_ones_own_network():
    described = small(Conv(), p=5, beta=0.1).describe()
    assert {key: described[key] for key in ("name", "target", "p", "beta")} == {
        "name": "hypermask",
        "target": "Conv",
        "p": 5.0,
        "beta": 0.1,
    }
    assert described["hypernetwork_hidden"] == [6, 5]
    assert json.loads(json.dumps(described)) == described


# -- initialisation -----------------------------------------------------------------------------------------


def initialised(seed: int) -> HyperMask:
    config = experiments.smoke("split_mnist/hypermask-t").config.method
    return HyperMask.from_config(config, tasks=2, input_shape=(1, 8, 8), classes=2, seed=seed)


def test_the_seed_decides_every_weight_and_the_global_generator_stays():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = initialised(1).weights()
    assert torch.equal(torch.rand(3), expected)
    again, other = initialised(1).weights(), initialised(2).weights()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


def test_the_hypernetworks_layers_start_uniform_and_embeddings_normal():
    model = small(MLP(20, (20,), 2), embedding_size=5000, hypernetwork_hidden=(40, 30))
    fan_ins = (5000, 40, 30)
    for weight, bias, fan_in in zip(
        model.hypernetwork.layer_weight_tensors, model.hypernetwork.layer_bias_vectors, fan_ins, strict=True
    ):
        bound = fan_in**-0.5
        assert weight.abs().max() <= bound
        assert bias.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
    for embedding in model.hypernetwork.conditional_params:
        assert embedding.shape == (5000,)
        assert abs(embedding.mean().item()) < 0.06
        assert embedding.std().item() == pytest.approx(1.0, rel=0.05)


def test_the_papers_split_mnist_model_has_the_papers_size():
    config = experiments.get("split_mnist/hypermask-t").config.method
    model = HyperMask.from_config(config, tasks=5, input_shape=(784,), classes=2, seed=1)
    assert sum(tensor.shape.numel() for tensor in model.masked) == 475_202
    weights = sum(p.numel() for p in model.hypernetwork.unconditional_params)
    assert weights == 12_359_127
    assert [tuple(e.shape) for e in model.hypernetwork.conditional_params] == [(128,)] * 5


# -- the loss -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("l1", ["masked", "plain"])
@pytest.mark.parametrize("form", ["paper", "released-code"])
def test_the_loss_is_the_sum_of_its_three_terms(l1, form):
    model = small(p=30.0, beta=0.3, lam=0.02, l1=l1, output_regularizer=form).double()
    inputs, labels = random(8, 6, dtype=torch.float64), torch.arange(8) % 3
    stored = model.outputs(range(2)).detach().clone()
    theta = [parameter.detach().clone() for parameter in model.target.parameters()]
    model.begin_task(2)
    # Keeps the outputs that are held.
    model.loss(inputs, labels, 2, 1, 10)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)

    masks = model.masks(2)
    distances = [(now - then).abs() for now, then in zip(model.target.parameters(), theta, strict=True)]
    weighed = distances if l1 == "plain" else [d * m for d, m in zip(distances, masks.values(), strict=True)]
    l_output = (model.outputs(range(2)) - stored).square().sum() / 2
    beta = 0.3 if form == "paper" else 0.3 / 2
    expected = F.cross_entropy(model.logits(inputs, 2), labels) + beta * l_output + 0.02 * sum(d.sum() for d in weighed)
    assert model.loss(inputs, labels, 2, 7, 10).item() == pytest.approx(expected.item(), rel=1e-12)
    assert model.output_coefficient(2) == beta / 2


def test_the_first_task_has_no_regulariser_and_a_rising_sparsity():
    model = small(p=50.0, beta=9.0, lam=9.0)
    inputs, labels = random(8, 6), torch.arange(8) % 3
    model.begin_task(0)
    for iteration, p in ((1, 5.0), (4, 20.0), (10, 50.0)):
        expected = objective.l_current(model.logits(inputs, 0, p), labels)
        assert model.loss(inputs, labels, 0, iteration, 10).item() == expected.item()


def test_a_fixed_target_has_no_l_target():
    model = small(trainable_target=False, lam=1e6, beta=0.0)
    inputs, labels = random(8, 6), torch.arange(8) % 3
    model.begin_task(1)
    expected = objective.l_current(model.logits(inputs, 1), labels)
    assert model.loss(inputs, labels, 1, 1, 10).item() == pytest.approx(expected.item(), rel=1e-6)


def test_at_the_start_of_a_task_the_previous_outputs_have_not_moved_by_a_bit():
    model = small(beta=1e30, lam=0.0)
    steps(model, 0, 5)
    model.zero_grad()
    model.begin_task(1)
    loss = model.loss(random(8, 6), torch.arange(8) % 3, 1, 1, 10)
    loss.backward()
    assert loss.item() < 100
    assert model.hypernetwork.conditional_params[0].grad.abs().max() == 0


# -- what trains --------------------------------------------------------------------------------------------


def moved(model: HyperMask, before: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, tensor in model.weights().items() if not torch.equal(tensor, before[name])}


@pytest.mark.parametrize("engine", ["eager", "fused"])
@pytest.mark.parametrize("trainable", [True, False])
def test_the_hypernetwork_trains_and_the_target_only_when_trainable(engine, trainable):
    model = small(trainable_target=trainable, p=30.0)
    before = {name: tensor.clone() for name, tensor in model.weights().items()}
    embeddings = [name for name in before if before[name].shape == (4,)]
    assert len(embeddings) == 3
    steps(model, 0, 5, engine)
    of_target = {name for name in before if name.startswith("target.")}
    expected = set(before) - set(embeddings[1:]) - (set() if trainable else of_target)
    assert moved(model, before) == expected


def test_a_fixed_targets_batch_norm_is_fixed_too():
    assert not any(parameter.requires_grad for parameter in small(Conv(), trainable_target=False).target.parameters())
    assert all(parameter.requires_grad for parameter in small(Conv()).target.parameters())


def test_a_fixed_targets_scale_and_shift_train_if_they_are_told_to():
    model = small(Conv(), trainable_target=False, norm_parameters="always")
    trained = {name for name, parameter in model.target.named_parameters() if parameter.requires_grad}
    of_norm = {
        f"{name}.{kind}"
        for name, module in model.target.named_modules()
        if isinstance(module, nn.BatchNorm2d)
        for kind in ("weight", "bias")
    }
    assert trained == of_norm != set()


@pytest.mark.parametrize("engine", ["eager", "fused"])
def test_embeddings_of_old_tasks_stay_trainable_and_later_ones_wait(engine):
    model = small(beta=0.1)
    steps(model, 0, 5, engine)
    before = [embedding.detach().clone() for embedding in model.hypernetwork.conditional_params]
    steps(model, 1, 5, engine)
    changed = [
        not torch.equal(now, then) for now, then in zip(model.hypernetwork.conditional_params, before, strict=True)
    ]
    assert changed == [True, True, False]


def test_l_output_holds_the_old_masks():
    distances = []
    for beta in (0.0, 10.0):
        model = small(beta=beta, lam=0.0)
        steps(model, 0, 20)
        before = model.outputs([0]).detach().clone()
        steps(model, 1, 20)
        distances.append((model.outputs([0]) - before).square().sum().item())
    assert distances[1] < 0.1 * distances[0]


def test_l_target_holds_the_old_target():
    distances = []
    for lam in (0.0, 1.0):
        model = small(lam=lam, l1="plain")
        steps(model, 0, 20)
        before = [theta.detach().clone() for theta in model.masked_theta()]
        steps(model, 1, 20)
        distances.append(sum((a - b).abs().sum().item() for a, b in zip(model.masked_theta(), before, strict=True)))
    assert distances[1] < 0.5 * distances[0]


def test_shared_layers_join_weights_and_bias_and_are_empty_for_a_fixed_target():
    model = small()
    layers = model.shared_layers()
    assert {name: tensor.shape for name, tensor in layers.items()} == {"hidden.0": (35,), "output": (18,)}
    assert torch.equal(layers["output"][:15], model.target.output.weight.detach().flatten())
    assert torch.equal(layers["output"][15:], model.target.output.bias.detach())
    assert small(trainable_target=False).shared_layers() == {}


# -- weights ------------------------------------------------------------------------------------------------


def test_weights_of_another_network_are_refused_whole():
    model, other = small(), small(MLP(6, (5, 4), 3))
    before = {name: tensor.clone() for name, tensor in model.weights().items()}
    with pytest.raises(ValueError, match="weights of another network"):
        model.set_weights(other.weights())
    # A shape that could be broadcast is another network's all the same.
    broadcast = {name: tensor[..., :1].clone() for name, tensor in before.items()}
    with pytest.raises(ValueError, match="weights of another network"):
        model.set_weights(broadcast)
    assert moved(model, before) == set()


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run with its weights kept, and what an equal model held after each task of an equal run."""
    root = tmp_path_factory.mktemp("kept")
    experiment = experiments.smoke("split_mnist/hypermask-t").override(["tasks=3", "iterations=30"])
    record = run_experiment(experiment, 1, root=root, device="cpu", keep_weights=True)
    benchmark = split_digits(tasks=3, validation=30)
    model = methods.build(experiment.config.method, benchmark, 1)
    after: list[dict[str, torch.Tensor]] = []
    train(
        model,
        benchmark,
        experiment.config.training,
        after_task=lambda task: after.append({name: tensor.clone() for name, tensor in model.weights().items()}),
    )
    return record, benchmark, after


@pytest.mark.parametrize("task", [0, 1, 2])
def test_a_loaded_model_equals_the_trained_one_to_the_last_bit(kept, task):
    record, benchmark, after = kept
    model = HyperMask.load(record.path, task)
    loaded = model.weights()
    assert loaded.keys() == after[task].keys()
    for name, tensor in after[task].items():
        assert torch.equal(loaded[name], tensor), name
    for j in range(task + 1):
        assert evaluate(model, benchmark, j, benchmark.task(j).test)[0] == record.accuracy[task, j]
    assert model.settings.p == 30.0


def test_the_last_models_logits_are_those_in_the_record(kept):
    record, benchmark, _ = kept
    arrays = record.arrays()
    again = sample_logits(HyperMask.load(str(record.path), 2), benchmark, 1, arrays["labels"].shape[1])
    for name in ("masked", "unmasked", "labels"):
        assert (again[name] == arrays[name]).all(), name


@pytest.mark.parametrize("task", [-1, 3])
def test_a_task_without_weights_is_one_sentence(kept, task):
    with pytest.raises(HyperMaskError) as caught:
        HyperMask.load(kept[0].path, task)
    assert str(caught.value) == (
        f"seed1-task{task + 1}.safetensors is not beside the record; weights exist for runs made with --keep-weights, "
        "tasks 0 to 2."
    )


@pytest.mark.parametrize("damage", [lambda data: data[:-100], lambda data: b"", lambda data: b"PK" + data])
def test_a_damaged_weights_file_is_one_sentence(kept, tmp_path, damage):
    record = copied(kept[0], tmp_path)
    path = checkpoints.weights_path(record, 0)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(HyperMaskError, match=r"^seed1-task1\.safetensors is no readable weights file \(.*\); run the"):
        HyperMask.load(record, 0)


def test_a_foreign_safetensors_file_is_one_sentence(kept, tmp_path):
    from safetensors.torch import save_file

    record = copied(kept[0], tmp_path)
    save_file({"weight": torch.zeros(3)}, checkpoints.weights_path(record, 0))
    with pytest.raises(HyperMaskError, match=r"^seed1-task1\.safetensors is no readable weights file"):
        HyperMask.load(record, 0)


def test_weights_of_another_configuration_are_one_sentence(kept, tmp_path):
    record = copied(kept[0], tmp_path)
    path = checkpoints.weights_path(record, 0)
    other = HyperMask(MLP(64, (7,), 2), tasks=3)
    checkpoints.save_tensors(path, other.weights(), {"input_shape": [64], "classes": 2})
    with pytest.raises(HyperMaskError) as caught:
        HyperMask.load(record, 0)
    assert str(caught.value) == (
        "seed1-task1.safetensors holds the weights of another network than MLP; pass the one that was trained as "
        "`target`."
    )


def test_a_missing_or_changed_record_is_not_loaded(kept, tmp_path):
    with pytest.raises(HyperMaskError, match="cannot be read"):
        HyperMask.load(tmp_path / "seed9.json", 0)
    record = copied(kept[0], tmp_path)
    record.write_text(record.read_text().replace('"seed": 1', '"seed": 2'))
    with pytest.raises(HyperMaskError, match="was changed after it was written"):
        HyperMask.load(record, 0)


def copied(record: records.Record, folder):
    """A copy of the run's files in a folder of its own; returns the record's path."""
    for path in record.path.parent.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder / record.path.name


def test_ones_own_network_is_loaded_into_a_fresh_copy(tmp_path):
    benchmark = split_digits(tasks=2)
    torch.manual_seed(0)
    model = small(Conv(), tasks=2, p=10.0)
    record = train(model, benchmark, TrainingConfig(iterations=10, batch_size=16), root=tmp_path, keep_weights=True)
    loaded = HyperMask.load(record.path, 1, target=Conv())
    assert loaded.settings == model.settings
    images = benchmark.prepare(benchmark.task(1).test.images, 1)
    with torch.no_grad():
        assert torch.equal(loaded.logits(images, 1), model.logits(images, 1))
    with pytest.raises(HyperMaskError, match="holds the weights of another network than MLP"):
        HyperMask.load(record.path, 1, target=MLP(64, (5,), 2))
    with pytest.raises(HyperMaskError, match=r"a network of its own \(Conv\); pass a fresh copy of it as `target`"):
        HyperMask.load(record.path, 1)
