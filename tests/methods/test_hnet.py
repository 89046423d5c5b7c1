import copy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypnettorch.utils.hnet_regularizer import calc_fix_target_reg, get_current_targets

from hypermask import benchmarks, experiments, methods, metrics
from hypermask.config import HNETConfig, TrainingConfig
from hypermask.errors import HyperMaskError
from hypermask.methods.hnet import HNET, adam_step
from hypermask.training import train

SETTINGS = HNETConfig(
    target_hidden=(16, 12),
    embedding_size=8,
    chunk_embedding_size=4,
    chunk_size=300,
    hypernetwork_hidden=(10, 10),
    hypernetwork_activation="elu",
    beta=0.3,
)
P = 64 * 16 + 16 + 16 * 12 + 12 + 12 * 2 + 2


def hnet(tasks: int = 3, settings: HNETConfig = SETTINGS) -> HNET:
    return HNET(settings, tasks=tasks, input_shape=(64,), classes=2, seed=1)


def batch(seed: int = 0, size: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    inputs = torch.rand(size, 64, generator=draw, dtype=torch.float64)
    return inputs, torch.randint(2, (size,), generator=draw)


def trainable(method: HNET) -> list[torch.nn.Parameter]:
    return [parameter for parameter in method.parameters() if parameter.requires_grad]


def adam(method: HNET) -> torch.optim.Adam:
    return torch.optim.Adam(trainable(method), lr=1e-2, fused=True)


def learn(method: HNET, task: int, steps: int) -> torch.optim.Adam:
    """A task's first steps, as the engine takes them."""
    method.begin_task(task)
    optimizer = adam(method)
    for step in range(steps):
        optimizer.zero_grad()
        method.backward(*batch(10 * task + step), task, step + 1, steps, optimizer)
        optimizer.step()
    return optimizer


@pytest.fixture
def in_second_task() -> tuple[HNET, torch.optim.Adam]:
    """A float64 HNET, some steps into its second task."""
    method = hnet().double()
    learn(method, 0, 5)
    method.end_task(0)
    return method, learn(method, 1, 4)


def test_one_pass_gives_the_weights_of_every_task():
    method = hnet()
    outputs = method.outputs([0, 1, 2])
    assert outputs.shape == (3, P)
    for task in range(3):
        torch.testing.assert_close(outputs[task : task + 1], method.outputs([task]))
    assert not torch.allclose(outputs[0], outputs[1])


def test_logits_are_the_generated_networks():
    method = hnet().double()
    inputs, _ = batch()
    parts = method.outputs([2])[0].split([64 * 16, 16, 16 * 12, 12, 24, 2])
    w1, b1, w2, b2, w3, b3 = (
        part.view(shape) for part, shape in zip(parts, [(16, 64), (16,), (12, 16), (12,), (2, 12), (2,)], strict=True)
    )
    expected = F.relu(F.relu(inputs @ w1.T + b1) @ w2.T + b2) @ w3.T + b3
    torch.testing.assert_close(method.logits(inputs, 2), expected)
    torch.testing.assert_close(method.logits(inputs.view(-1, 1, 8, 8), 2), expected)


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_adam_step_is_what_adam_does_and_touches_nothing(steps):
    method = hnet().double()
    optimizer = learn(method, 0, steps)
    optimizer.zero_grad()
    method.loss(*batch(99), 0, 1, 1).backward()
    before = [phi.detach().clone() for phi in method.phi]
    state = copy.deepcopy(optimizer.state_dict())
    found = adam_step(optimizer, method.phi)
    assert all(torch.equal(phi, old) for phi, old in zip(method.phi, before, strict=True))
    after = optimizer.state_dict()
    assert after["state"].keys() == state["state"].keys()
    for index, values in state["state"].items():
        assert all(torch.equal(after["state"][index][key], value) for key, value in values.items())
    optimizer.step()
    for delta, phi, old in zip(found, method.phi, before, strict=True):
        torch.testing.assert_close(delta, phi.detach() - old, rtol=1e-9, atol=1e-14)
        assert delta.abs().max() > 1e-4


def test_adam_step_follows_the_learning_rate_of_the_optimizer(in_second_task):
    method, optimizer = in_second_task
    full = adam_step(optimizer, method.phi)
    optimizer.param_groups[0]["lr"] /= 2
    for half, whole in zip(adam_step(optimizer, method.phi), full, strict=True):
        torch.testing.assert_close(half, whole / 2)


def test_gradient_is_hypnettorchs_regulariser_with_look_ahead(in_second_task):
    method, _ = in_second_task
    method.end_task(1)
    method.begin_task(2)
    stored = get_current_targets(2, method.hypernetwork)
    optimizer = adam(method)
    for step in range(3):
        optimizer.zero_grad()
        found = method.backward(*batch(50 + step), 2, step + 1, 3, optimizer)
        gradients = [parameter.grad.clone() for parameter in trainable(method)]

        optimizer.zero_grad()
        current = method.loss(*batch(50 + step), 2, step + 1, 3)
        current.backward()
        ahead = adam_step(optimizer, method.phi)
        held = 0.3 * calc_fix_target_reg(method.hypernetwork, 2, targets=stored, dTheta=ahead)
        held.backward()
        assert held > 1e-4 * current
        torch.testing.assert_close(found, (current + held).detach(), rtol=1e-12, atol=0)
        for gradient, parameter in zip(gradients, trainable(method), strict=True):
            torch.testing.assert_close(gradient, parameter.grad, rtol=1e-9, atol=1e-14)
        optimizer.step()


def test_the_first_task_has_the_cross_entropy_alone():
    method = hnet().double()
    method.begin_task(0)
    inputs, labels = batch()
    found = method.backward(inputs, labels, 0, 1, 1, adam(method))
    torch.testing.assert_close(found, F.cross_entropy(method.logits(inputs, 0), labels).detach())


def test_only_the_embedding_of_the_current_task_trains():
    method = hnet()
    embeddings = method.hypernetwork.conditional_params
    assert not any(embedding.requires_grad for embedding in embeddings)
    method.double()
    for task in range(3):
        before = [embedding.detach().clone() for embedding in embeddings]
        learn(method, task, 3)
        moved = [not torch.equal(embedding, old) for embedding, old in zip(embeddings, before, strict=True)]
        assert moved == [index == task for index in range(3)]
        method.end_task(task)
    assert not any(embedding.requires_grad for embedding in embeddings)


def test_two_adams_at_one_rate_are_one_adam():
    one, two = hnet().double(), hnet().double()
    learn(one, 0, 4)
    two.begin_task(0)
    embedding = two.hypernetwork.conditional_params[0]
    optimizers = [torch.optim.Adam(two.phi, lr=1e-2), torch.optim.Adam([embedding], lr=1e-2)]
    for step in range(4):
        for optimizer in optimizers:
            optimizer.zero_grad()
        two.backward(*batch(step), 0, step + 1, 4, optimizers[0])
        for optimizer in optimizers:
            optimizer.step()
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-14)


def test_a_seed_fixes_the_start_and_nothing_else_moves_it():
    torch.manual_seed(5)
    first = hnet().weights()
    torch.manual_seed(6)
    second = hnet().weights()
    other = HNET(SETTINGS, tasks=3, input_shape=(64,), classes=2, seed=2).weights()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    drawn = {name for name, tensor in first.items() if tensor.any()}
    assert not any(torch.equal(first[name], other[name]) for name in drawn)


def test_it_starts_as_hnets_authors_start_it():
    hypernetwork = hnet().hypernetwork
    for weight, bias in zip(hypernetwork.layer_weight_tensors, hypernetwork.layer_bias_vectors, strict=True):
        bound = (6 / sum(weight.shape)) ** 0.5
        assert 0.95 * bound < weight.abs().max() <= bound
        assert not bias.any()
    embeddings = torch.cat([e.detach().flatten() for e in [*hypernetwork.conditional_params, hnet().phi[-1]]])
    assert embeddings.std() == pytest.approx(1, abs=0.3)


def test_split_mnists_hypernetwork_has_the_sizes_of_its_configuration():
    config = experiments.get("split_mnist/hnet").config
    method = HNET(config.method, tasks=5, input_shape=(784,), classes=2, seed=1)
    assert method.outputs([0]).shape == (1, 475_202)
    assert method.hypernetwork.num_chunks == 12
    layers = 192 * 10 + 10 + 10 * 10 + 10 + 10 * 42_000 + 42_000
    assert sum(phi.numel() for phi in method.phi) == layers + 12 * 96
    assert sum(e.numel() for e in method.hypernetwork.conditional_params) == 5 * 96


def test_split_digits_is_learned_and_kept():
    benchmark = benchmarks.split_digits(tasks=3)
    method = methods.build(SETTINGS, benchmark, seed=1)
    training = TrainingConfig(batch_size=32, lr=1e-2, iterations=60)
    record = train(method, benchmark, training, name="split_digits/hnet", engine="eager")
    assert record.finished
    assert metrics.mean_accuracy(record.accuracy) > 95
    assert metrics.backward_transfer(record.accuracy) > -2
    assert record.payload["target_distance"] is None
    forgetful = methods.build(replace(SETTINGS, beta=0.0), benchmark, seed=1)
    forgotten = train(forgetful, benchmark, training, name="split_digits/hnet", engine="eager")
    assert metrics.backward_transfer(forgotten.accuracy) < -5


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("chunk_size", 0, "at least 1"),
        ("hypernetwork_activation", "tanh", "relu or elu"),
        ("target_hidden", (16, 0), "positive layer widths"),
        ("beta", -1.0, "at least 0"),
    ],
)
def test_refusals(key, value, expected):
    with pytest.raises(HyperMaskError) as error:
        replace(SETTINGS, **{key: value})
    assert str(error.value) == f"{key} is {value!r}; expected {expected}."
