import numpy as np
import pytest
import torch
from torch import nn

from hypermask import benchmarks, methods, metrics, targets
from hypermask.config import TrainingConfig, WSNConfig
from hypermask.errors import HyperMaskError
from hypermask.methods.wsn import WSN
from hypermask.training import train

HIDDEN = (50, 30)
SETTINGS = WSNConfig(target="mlp", target_hidden=HIDDEN, target_activation="relu", c=30.0)
SIZES = (64 * 50, 50 * 30)


def wsn(tasks: int = 3, c: float = 30.0) -> WSN:
    return WSN(targets.MLP(64, HIDDEN, 2), tasks=tasks, c=c, seed=1)


def batch(seed: int, size: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return torch.rand(size, 64, generator=draw), torch.randint(2, (size,), generator=draw)


def learn(method: WSN, task: int, steps: int = 30) -> None:
    """A task's steps, as the engine takes them."""
    method.begin_task(task)
    optimizer = torch.optim.Adam(method.parameters(), lr=1e-2, fused=True)
    for step in range(steps):
        optimizer.zero_grad()
        method.backward(*batch(100 * task + step), task, step + 1, steps, optimizer)
        optimizer.step()
    method.end_task(task)


def layers(method: WSN, flat: torch.Tensor) -> list[torch.Tensor]:
    return [part.view(w.shape) for part, w in zip(flat.detach().split(SIZES), body(method), strict=True)]


def body(method: WSN) -> list[torch.Tensor]:
    return [layer.weight for layer in method.target.hidden]


@pytest.mark.parametrize("c", [3.0, 5.0, 10.0, 30.0, 50.0, 70.0, 100.0])
def test_a_mask_keeps_the_share_c_of_each_tensor(c):
    method = wsn(c=c)
    learn(method, 0, 3)
    for mask, size in zip(method.masks[0].split(SIZES), SIZES, strict=True):
        assert abs(int(mask.sum()) - c / 100 * size) <= 1
    magnitudes, kept = method.scores.detach()[: SIZES[0]].abs(), method.masks[0][: SIZES[0]]
    if c < 100:
        assert magnitudes[kept].min() > magnitudes[~kept].max()


def test_logits_are_the_masked_network_with_the_output_layer_of_the_task():
    method = wsn()
    learn(method, 0)
    learn(method, 1)
    inputs, _ = batch(7)
    for task in range(2):
        w1, w2 = (w * m for w, m in zip(body(method), layers(method, method.masks[task]), strict=True))
        expected = torch.relu(torch.relu(inputs @ w1.T) @ w2.T) @ method.output_layers[task].T
        torch.testing.assert_close(method.logits(inputs, task), expected)
    assert method.target.output.weight is method.output_layers[0]


def test_gradients():
    """A kept weight's is the network's, a score's is that of its mask entry times the sign, kept or not."""
    method = wsn()
    method.begin_task(0)
    inputs, labels = batch(1)
    method.loss(inputs, labels, 0, 1, 1).backward()
    scores, gradients = layers(method, method.scores), layers(method, method.scores.grad)
    kept = [(s.abs() >= s.abs().flatten().sort().values[-round(0.3 * s.numel())]).float() for s in scores]
    effective = [(w * m).detach().requires_grad_() for w, m in zip(body(method), kept, strict=True)]
    logits = torch.relu(torch.relu(inputs @ effective[0].T) @ effective[1].T) @ method.output_layers[0].detach().T
    nn.functional.cross_entropy(logits, labels).backward()
    for weight, score, gradient, mask, e in zip(body(method), scores, gradients, kept, effective, strict=True):
        torch.testing.assert_close(weight.grad, e.grad * mask)
        torch.testing.assert_close(gradient, e.grad * weight.detach() * score.sign())
        assert gradient[mask == 0].abs().max() > 0


def test_a_used_weight_gets_no_gradient_and_never_moves_while_its_score_does():
    method = wsn()
    learn(method, 0)
    for task in (1, 2):
        used = layers(method, method.masks[:task].any(dim=0))
        before = [weight.detach().clone() for weight in body(method)]
        scores = layers(method, method.scores.clone())
        method.begin_task(task)
        method.zero_grad()
        method.backward(*batch(3), task, 1, 1, torch.optim.Adam(method.parameters()))
        assert all(bool((w.grad[u] == 0).all()) for w, u in zip(body(method), used, strict=True))
        learn(method, task)
        for weight, old, u in zip(body(method), before, used, strict=True):
            assert torch.equal(weight[u], old[u])
            assert not torch.equal(weight[~u], old[~u])
        for score, old, u in zip(layers(method, method.scores), scores, used, strict=True):
            assert not torch.equal(score[u], old[u])


def test_a_finished_task_never_changes_to_the_last_bit():
    method = wsn()
    inputs, _ = batch(7)
    finished = []
    for task in range(3):
        learn(method, task)
        finished.append(method.logits(inputs, task))
        assert all(torch.equal(method.logits(inputs, j), logits) for j, logits in enumerate(finished))


def test_scores_above_1_are_compared_too():
    method = wsn(c=10)
    with torch.no_grad():
        method.scores.mul_(1000)
    learn(method, 0, 1)
    magnitudes, kept = method.scores.detach()[: SIZES[0]].abs(), method.masks[0][: SIZES[0]]
    assert abs(int(kept.sum()) - 320) <= 1
    assert magnitudes[kept].min() > magnitudes[~kept].max() > 1


def test_batch_norm_and_biases_are_reduced_to_what_tasks_may_share():
    network = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 36, 2),
    )
    method = WSN(network, tasks=2, c=50, seed=1)
    assert {name for name, _ in method.named_parameters()} == {
        "target.1.weight",
        "target.5.weight",
        "scores",
        "output_layers.1",
    }
    assert {name for name, _ in method.named_buffers()} == {"masks"}
    learn(method, 0)
    inputs, _ = batch(7)
    before = method.logits(inputs, 0)
    learn(method, 1)
    assert torch.equal(method.logits(inputs, 0), before)
    assert method.masks.shape == (2, 4 * 9)


def test_weights_bring_masks_back():
    method = wsn()
    learn(method, 0)
    copy = wsn()
    copy.set_weights(method.weights())
    inputs, _ = batch(7)
    assert torch.equal(copy.logits(inputs, 0), method.logits(inputs, 0))


def test_a_task_without_a_mask_is_refused():
    method = wsn()
    with pytest.raises(HyperMaskError, match=r"^task 1 has no mask yet; train it before asking for its predictions\.$"):
        method.logits(batch(1)[0], 1)


def test_split_digits_is_learned_and_backward_transfer_is_zero_by_measurement():
    benchmark = benchmarks.split_digits()
    method = methods.build(SETTINGS, benchmark, seed=1)
    record = train(
        method,
        benchmark,
        TrainingConfig(batch_size=10, lr=3e-3, epochs=4, scheduler="plateau", model_choice="lowest-validation-loss"),
        name="split_digits/wsn",
        engine="eager",
    )
    assert record.finished
    assert metrics.mean_accuracy(record.accuracy) > 93
    assert metrics.backward_transfer(record.accuracy) == 0
    for task in range(5):
        assert np.array_equal(record.accuracy[task:, task], np.full(5 - task, record.accuracy[task, task]))
    # The network did train on: what is zero is forgetting, not learning.
    distances = np.array(record.payload["target_distance"]["hidden.0.weight"])
    assert (distances[np.triu_indices(5, 1)] > 0).all()


@pytest.mark.parametrize("c", [0.0, 101.0])
def test_refusals(c):
    with pytest.raises(HyperMaskError) as error:
        WSNConfig(target="mlp", target_hidden=(30,), target_activation="relu", c=c)
    assert str(error.value) == f"c is {c}; expected a percentage above 0, up to 100."
