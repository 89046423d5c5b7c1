"""The fused engine against plain PyTorch, hypnettorch's regulariser and torch's Adam."""

import copy
import gc
import os
import platform
import subprocess
import sys
import warnings
import weakref
from types import SimpleNamespace

import pytest
import torch
from hypnettorch.hnets import HMLP
from small_methods import FixedBatches
from torch import nn

from hypermask.benchmarks import split_digits
from hypermask.config import TrainingConfig
from hypermask.engine import Batches, fused, make, optimizers, output_layer_cpu
from hypermask.engine.errors import UnavailableError
from hypermask.engine.output_layer_cpu import OutputLayer
from hypermask.errors import HyperMaskError
from hypermask.methods import Method
from hypermask.methods.wsn import WSN
from hypermask.model import HyperMask
from hypermask.targets import MLP

BATCH = 32


def normal(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def model(dtype: torch.dtype, **values) -> HyperMask:
    """HyperMask over a small perceptron; more than one chunk of the kernel's rows."""
    torch.manual_seed(3)
    target = MLP(60, (70, 50), 4)
    settings = {"tasks": 4, "embedding_size": 12, "hypernetwork_hidden": (15, 25), "beta": 0.01, "lam": 1e-3, "p": 30.0}
    return HyperMask(target, **settings | values).to(dtype)


def batches(task: int, iterations: int, dtype: torch.dtype) -> FixedBatches:
    """A task that can be learned: labels by a random linear rule."""
    inputs = normal(iterations, BATCH, 60, seed=100 + task, dtype=dtype)
    labels = (inputs @ normal(60, 4, seed=200 + task, dtype=dtype)).argmax(dim=2)
    return FixedBatches(inputs, labels)


def learn(method: HyperMask, engine: str, task: int, iterations: int, dtype: torch.dtype, lr: float = 1e-3):
    """Losses [iterations], float64, of one task; the weights end in the method."""
    method.begin_task(task)
    training = TrainingConfig(iterations=iterations, lr=lr)
    runner = make(engine, method, task, training, iterations, batches(task, iterations, dtype))
    assert runner.name == engine
    losses = torch.stack([runner.step(iteration) for iteration in range(iterations)]).double()
    runner.synchronise()
    return losses


def learned(tasks: int, dtype: torch.dtype, **values) -> HyperMask:
    """A model that has learned the first tasks, by plain PyTorch."""
    method = model(dtype, **values)
    for task in range(tasks):
        learn(method, "eager", task, 20, dtype)
    return method


# -- the same steps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("trainable", [True, False])
@pytest.mark.parametrize("task", [0, 2])
def test_200_steps_agree_within_1e_10_in_float64(task, trainable):
    eager = learned(task, torch.float64, trainable_target=trainable)
    fused = copy.deepcopy(eager)
    expected = learn(eager, "eager", task, 200, torch.float64, lr=3e-3)
    found = learn(fused, "fused", task, 200, torch.float64, lr=3e-3)
    assert expected[-20:].mean() < 0.9 * expected[:20].mean()
    assert ((found - expected).abs() / expected).max() < 1e-10
    weights = fused.weights()
    for name, tensor in eager.weights().items():
        torch.testing.assert_close(weights[name], tensor, rtol=1e-8, atol=1e-10, msg=name)


@pytest.mark.parametrize("task", [0, 2])
def test_20_steps_agree_within_1e_4_in_float32(task):
    eager = learned(task, torch.float32)
    fused = copy.deepcopy(eager)
    expected = learn(eager, "eager", task, 20, torch.float32)
    found = learn(fused, "fused", task, 20, torch.float32)
    assert ((found - expected).abs() / expected).max() < 1e-4


def test_the_released_codes_weight_of_the_regulariser_is_fused_too():
    eager = learned(3, torch.float64, output_regularizer="released-code", beta=5.0)
    fused = copy.deepcopy(eager)
    expected = learn(eager, "eager", 3, 30, torch.float64)
    found = learn(fused, "fused", 3, 30, torch.float64)
    assert ((found - expected).abs() / expected).max() < 1e-10


@pytest.mark.parametrize("engine", ["eager", "fused"])
def test_a_new_learning_rate_holds_from_the_next_step(engine):
    method = model(torch.float64)
    method.begin_task(0)
    runner = make(engine, method, 0, TrainingConfig(iterations=3, lr=1e-3), 3, batches(0, 3, torch.float64))
    runner.step(0)
    runner.synchronise()
    before = {name: tensor.clone() for name, tensor in method.weights().items()}
    runner.set_learning_rate(0.0)
    runner.step(1)
    runner.synchronise()
    assert all(torch.equal(tensor, before[name]) for name, tensor in method.weights().items())
    runner.set_learning_rate(1.0)
    runner.step(2)
    runner.synchronise()
    moved = [(tensor - before[name]).abs().max().item() for name, tensor in method.weights().items()]
    assert max(moved) > 0.1


def test_nothing_reaches_the_parameters_before_it_is_asked_for_and_all_does_then():
    method = model(torch.float32)
    method.begin_task(0)
    runner = make("fused", method, 0, TrainingConfig(iterations=2), 2, batches(0, 2, torch.float32))
    weight, bias = method.output_layer()
    before = weight.clone(), bias.clone()
    runner.step(0)
    assert torch.equal(weight, before[0])
    assert torch.equal(bias, before[1])
    runner.synchronise()
    assert not torch.equal(weight, before[0])
    assert not torch.equal(bias, before[1])
    assert weight.isfinite().all()


# -- the regulariser ----------------------------------------------------------------------------------------


def regulariser(layer: OutputLayer, weights: torch.Tensor, hidden: torch.Tensor, task_gradient: torch.Tensor):
    """|R|^2 and its gradients for [weight | bias] and the hidden vectors, by the kernel, kappa = 1.

    weights: [P, h + 1], where the layer has come to since its start.
    """
    with torch.no_grad():
        layer._weight.copy_(weights[:, :-1])
        layer._bias.copy_(weights[:, -1])
    layer._w.copy_(layer._to_tiles())
    value, hidden_gradient = layer.update(task_gradient, hidden, kappa=1.0)
    # The kernel writes no gradient; after the first step Adam's first moment is a tenth of it.
    first = layer._m.transpose(1, 2).reshape(-1, weights.shape[1])[: len(weights)]
    return value, first / 0.1, hidden_gradient


def test_the_fused_regulariser_is_hypnettorchs_in_float64():
    from hypnettorch.utils import hnet_regularizer

    previous = 3
    method = model(torch.float64)
    weight, bias = method.output_layer()
    tasks = range(previous + 1)
    layer = OutputLayer(weight, bias, method.hidden(tasks)[:previous].detach(), learning_rate=1e-3)
    targets = hnet_regularizer.get_current_targets(previous, method.hypernetwork)
    with torch.no_grad():
        for index, parameter in enumerate(method.hypernetwork.parameters()):
            parameter.add_(0.05 * normal(*parameter.shape, seed=index, dtype=torch.float64))

    reference = previous * hnet_regularizer.calc_fix_target_reg(method.hypernetwork, previous, targets=targets)
    parameters = [*method.hypernetwork.unconditional_params, *method.hypernetwork.conditional_params[:previous]]
    expected = dict(zip(map(id, parameters), torch.autograd.grad(reference, parameters), strict=True))

    hidden = method.hidden(tasks)
    nothing = torch.zeros(len(bias), dtype=torch.float64)
    joined = torch.cat([weight, bias[:, None]], dim=1).detach().clone()
    value, gradient, hidden_gradient = regulariser(layer, joined, hidden.detach(), nothing)
    assert value.item() == pytest.approx(reference.item(), rel=1e-11)
    torch.testing.assert_close(gradient[:, :-1], expected[id(weight)], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(gradient[:, -1], expected[id(bias)], rtol=1e-9, atol=1e-12)
    # The layers below receive the gradient for the hidden vectors.
    below = [p for p in parameters if p is not weight and p is not bias]
    for mine, p in zip(torch.autograd.grad(hidden, below, hidden_gradient), below, strict=True):
        torch.testing.assert_close(mine, expected[id(p)], rtol=1e-9, atol=1e-12)


def test_the_fused_regulariser_in_float32_where_its_two_terms_cancel_to_1_percent():
    """R = D U + W* E with D U = -0.99 W* E; hypnettorch in float64 on the same numbers is the reference."""
    from hypnettorch.hnets import HMLP
    from hypnettorch.utils import hnet_regularizer

    rows, width, previous = 9000, 40, 4
    # Without hidden layers the embeddings are the hidden vectors, so that the reference gets the very same numbers.
    network = HMLP([[rows]], cond_in_size=width, layers=[], num_cond_embs=previous + 1, verbose=False)
    weight, bias = network.layer_weight_tensors[0], network.layer_bias_vectors[0]
    start = torch.stack(list(network.conditional_params)).detach().clone()
    layer = OutputLayer(weight, bias, start[:previous], learning_rate=1e-3)
    reference = copy.deepcopy(network).double()
    targets = hnet_regularizer.get_current_targets(previous, reference)

    before = torch.cat([weight, bias[:, None]], dim=1).detach().double()
    hidden = start + 0.1 * normal(previous + 1, width, seed=1)
    ones = torch.ones(previous, 1, dtype=torch.float64)
    u = torch.cat([hidden[:previous].double(), ones], dim=1).T
    e = u - torch.cat([start[:previous].double(), ones], dim=1).T
    moved = (before - 0.99 * before @ e @ torch.linalg.pinv(u)).float()
    residual = (moved.double() - before) @ u + before @ e
    assert residual.norm() / (before @ e).norm() == pytest.approx(0.01, rel=0.01)

    with torch.no_grad():
        reference.layer_weight_tensors[0].copy_(moved[:, :-1])
        reference.layer_bias_vectors[0].copy_(moved[:, -1])
        for embedding, vector in zip(reference.conditional_params, hidden, strict=True):
            embedding.copy_(vector)
    expected = previous * hnet_regularizer.calc_fix_target_reg(reference, previous, targets=targets)
    expected.backward()

    value, gradient, hidden_gradient = regulariser(layer, moved, hidden, torch.zeros(rows))
    assert value.item() == pytest.approx(expected.item(), rel=1e-4)
    by_weight, by_bias = reference.layer_weight_tensors[0].grad, reference.layer_bias_vectors[0].grad
    by_hidden = torch.stack([embedding.grad for embedding in reference.conditional_params[:previous]])
    for mine, right in (
        (gradient[:, :-1], by_weight),
        (gradient[:, -1], by_bias),
        (hidden_gradient[:previous], by_hidden),
    ):
        assert ((mine.double() - right).norm() / right.norm()).item() < 1e-4
    assert hidden_gradient[previous].abs().max() == 0


# -- Adam ---------------------------------------------------------------------------------------------------


def test_the_kernels_adam_is_torchs_within_float32_rounding_over_1000_steps():
    rows, width, steps = 70, 6, 1000
    weight, bias = nn.Parameter(normal(rows, width, seed=1)), nn.Parameter(normal(rows, seed=2))
    starts = weight.detach().clone(), bias.detach().clone()
    layer = OutputLayer(weight, bias, torch.empty(0, width), learning_rate=1e-3)
    by_torch = {
        dtype: [nn.Parameter(start.to(dtype, copy=True)) for start in starts]
        for dtype in (torch.float32, torch.float64)
    }
    optimizers = [torch.optim.Adam(parameters, lr=1e-3) for parameters in by_torch.values()]
    for step in range(steps):
        gradient, hidden = normal(rows, seed=2 * step), normal(1, width, seed=2 * step + 1)
        layer.update(gradient, hidden, kappa=0.0)
        for (dtype, (w, b)), optimizer in zip(by_torch.items(), optimizers, strict=True):
            g = gradient.to(dtype)
            w.grad, b.grad = torch.outer(g, hidden[0].to(dtype)), g
            optimizer.step()
    layer.write_back()
    exact = torch.cat([p.detach().flatten() for p in by_torch[torch.float64]])
    torchs = torch.cat([p.detach().flatten() for p in by_torch[torch.float32]]).double()
    ours = torch.cat([weight.detach().flatten(), bias.detach().flatten()]).double()
    assert (exact - torch.cat([start.flatten() for start in starts])).abs().max() > 0.01
    rounding = (torchs - exact).abs()
    assert (ours - exact).abs().max() < 2 * rounding.max()
    assert (ours - exact).abs().mean() < 1.2 * rounding.mean()


def test_the_first_step_of_adam_by_hand():
    weight, bias = nn.Parameter(torch.zeros(3, 2)), nn.Parameter(torch.zeros(3))
    layer = OutputLayer(weight, bias, torch.empty(0, 2), learning_rate=0.1)
    output = layer.forward(torch.tensor([1.0, -2.0]))
    assert output.tolist() == [0.0, 0.0, 0.0]
    squares, hidden_gradient = layer.update(torch.tensor([3.0, -1.0, 0.0]), torch.tensor([[1.0, -2.0]]), kappa=0.0)
    assert squares.item() == 0.0
    assert hidden_gradient.tolist() == [[0.0, 0.0]]
    layer.write_back()
    expected = torch.tensor([[-0.1, 0.1], [0.1, -0.1], [0.0, 0.0]])
    torch.testing.assert_close(weight.detach(), expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(bias.detach(), torch.tensor([-0.1, 0.1, 0.0]), atol=1e-6, rtol=0)


def test_a_moment_without_gradients_ends_at_zero_and_not_among_the_slow_subnormal_numbers():
    weight, bias = nn.Parameter(normal(130, 3, seed=0)), nn.Parameter(normal(130, seed=1))
    layer = OutputLayer(weight, bias, torch.empty(0, 3), learning_rate=1e-3)
    layer.update(torch.full((130,), 1e-15), torch.ones(1, 3), kappa=0.0)
    moments = [layer._m.abs().max().item()]
    for _ in range(600):
        layer.update(torch.zeros(130), torch.ones(1, 3), kappa=0.0)
        moments.append(layer._m.abs().max().item())
    # It decays by a tenth a step; among subnormal numbers rounding would hold it above zero for ever.
    assert moments[100] == pytest.approx(1e-16 * 0.9**100, rel=1e-4)
    assert moments[-1] == 0.0
    # The caller's own arithmetic still has them.
    assert (torch.tensor([1e-40]) * 0.5).item() > 0


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 4096, 4097])
def test_any_number_of_rows(rows):
    weight, bias = nn.Parameter(normal(rows, 3, seed=0)), nn.Parameter(normal(rows, seed=1))
    hidden = normal(3, seed=2)
    layer = OutputLayer(weight, bias, torch.empty(0, 3), learning_rate=1e-3)
    output = layer.forward(hidden)
    assert output.shape == (rows,)
    torch.testing.assert_close(output, (weight @ hidden + bias).detach(), rtol=1e-5, atol=1e-6)
    gradient = normal(rows, seed=3)
    _, hidden_gradient = layer.update(gradient, hidden[None], kappa=0.0)
    torch.testing.assert_close(hidden_gradient[0], gradient @ normal(rows, 3, seed=0), rtol=1e-4, atol=1e-4)


def step_against_autograd(previous: int, width: int, dtype: torch.dtype) -> None:
    """One step of the kernel against the same loss by autograd in float64."""
    rows, kappa = 130, 0.3
    weight, bias = nn.Parameter(normal(rows, width, seed=0, dtype=dtype)), nn.Parameter(torch.zeros(rows, dtype=dtype))
    start = normal(previous, width, seed=1, dtype=dtype)
    layer = OutputLayer(weight, bias, start, learning_rate=1e-3)
    hidden, gradient = normal(previous + 1, width, seed=2, dtype=dtype), normal(rows, seed=3, dtype=dtype)
    w = torch.cat([weight, bias[:, None]], dim=1).detach().double().requires_grad_()
    ones = torch.ones(previous + 1, 1, dtype=torch.float64)
    u = torch.cat([hidden.double(), ones], dim=1).requires_grad_()
    residual = w @ u[:-1].T - w.detach() @ torch.cat([start.double(), ones[:-1]], dim=1).T
    (kappa * residual.square().sum() + gradient.double() @ (w @ u[-1])).backward()

    squares, hidden_gradient = layer.update(gradient, hidden, kappa)
    # After the first step Adam's first moment is a tenth of the gradient.
    found = layer._m.transpose(1, 2).reshape(-1, width + 1)[:rows] / 0.1
    close = {"rtol": 1e-4, "atol": 1e-3} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(squares.double(), residual.detach().square().sum(), **close)
    torch.testing.assert_close(hidden_gradient.double(), u.grad[:, :-1], **close)
    torch.testing.assert_close(found.double(), w.grad, **close)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [3, 4, 5, 6])
@pytest.mark.parametrize("previous", [0, 1, 2, 3, 4, 5, 8, 11])
def test_any_number_of_tasks_and_columns(previous, width, dtype):
    step_against_autograd(previous, width, dtype)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names instruction sets of x86-64")
@pytest.mark.parametrize("processor", ["x86-64", "sandybridge", "haswell"])
def test_processors_with_narrower_registers(monkeypatch, processor):
    narrower = [f"-march={processor}" if flag == "-march=native" else flag for flag in output_layer_cpu.FLAGS]
    assert narrower != list(output_layer_cpu.FLAGS)
    monkeypatch.setattr(output_layer_cpu, "FLAGS", tuple(narrower))
    output_layer_cpu._library.cache_clear()
    for dtype in (torch.float32, torch.float64):
        step_against_autograd(5, 6, dtype)
    output_layer_cpu._library.cache_clear()


# -- reproducible -------------------------------------------------------------------------------------------


def kernel_steps(threads: int) -> list[torch.Tensor]:
    """A few steps of the kernel over three chunks of rows, with the given number of threads."""
    rows, width, previous = 10_000, 9, 3
    weight, bias = nn.Parameter(normal(rows, width, seed=0)), nn.Parameter(normal(rows, seed=1))
    layer = OutputLayer(weight, bias, normal(previous, width, seed=2), learning_rate=1e-3)
    found = []
    had = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for step in range(5):
            hidden = normal(previous + 1, width, seed=10 + step)
            found += [layer.forward(hidden[previous]), *layer.update(normal(rows, seed=20 + step), hidden, 0.01)]
    finally:
        torch.set_num_threads(had)
    layer.write_back()
    return [*found, weight.detach(), bias.detach()]


@pytest.mark.parametrize("threads", [2, 4])
def test_the_kernel_gives_the_same_bits_with_any_number_of_threads(threads):
    for found, expected in zip(kernel_steps(threads), kernel_steps(1), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("engine", ["eager", "fused"])
def test_a_task_trained_twice_gives_the_same_bits(engine):
    first, second = (learned(1, torch.float32) for _ in range(2))
    assert torch.equal(learn(first, engine, 1, 30, torch.float32), learn(second, engine, 1, 30, torch.float32))
    weights = second.weights()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in first.weights().items())


# -- where the fused engine cannot run ----------------------------------------------------------------------

WITHOUT_COMPILER = """
import warnings
from hypermask import HyperMask, HyperMaskError, TrainingConfig, split_digits, train
from hypermask.targets import MLP

for engine in ("fused", "auto", "eager"):
    method = HyperMask(MLP(64, (4,), 2), tasks=1, embedding_size=2, hypernetwork_hidden=(3,))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            record = train(method, split_digits(tasks=1), TrainingConfig(iterations=2), engine=engine)
            print(engine, record.status, record.payload["engine"], record.environment["kernel"])
        except HyperMaskError as error:
            print(engine, error)
    print(*[f"warning: {warning.message}" for warning in caught], sep="\\n")
"""


def test_without_a_compiler_it_says_so_and_auto_trains_eagerly():
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_COMPILER],
        env=os.environ | {"CC": "no-such-compiler"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert [line for line in ended.stdout.splitlines() if line] == [
        "fused the fused engine cannot run here: no C compiler (cc) is installed; use --engine eager.",
        "auto finished eager None",
        "warning: the eager engine is used, since the fused one cannot run here: no C compiler (cc) is installed.",
        "eager finished eager None",
    ]


class Plain(Method):
    """A linear classifier for all tasks: no hypernetwork, so no output layer to fuse."""

    tasks = 2

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 2)

    def loss(self, inputs, labels, task, iteration, iterations):
        return nn.functional.cross_entropy(self.layer(inputs), labels)


def engine_for(choice: str, method: Method):
    batches = FixedBatches(normal(1, 4, 5, seed=0), torch.tensor([[0, 1, 0, 1]]))
    return make(choice, method, 0, TrainingConfig(iterations=1), 1, batches)


def test_a_method_without_an_output_layer_is_trained_eagerly():
    with pytest.raises(HyperMaskError) as caught:
        engine_for("fused", Plain())
    assert str(caught.value) == (
        "the fused engine cannot run here: Plain has no linear output layer to fuse; use --engine eager."
    )
    # Nothing is lost here, so there is nothing to warn of.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runner = engine_for("auto", Plain())
    assert (runner.name, runner.kernel) == ("eager", None)
    assert runner.step(0).isfinite()


class OwnLoss(HyperMask):
    def loss(self, *arguments):
        return super().loss(*arguments) + 1


class OwnBackward(HyperMask):
    def backward(self, *arguments):
        return super().backward(*arguments)


class OwnTaskLoss(HyperMask):
    def task_loss(self, *arguments):
        return super().task_loss(*arguments) + 1


class OwnLossAndPart(HyperMask):
    def loss(self, *arguments):
        return super().loss(*arguments) + 1

    def task_loss(self, *arguments):
        return super().task_loss(*arguments) + 1


class OwnAll(HyperMask):
    loss, task_loss = OwnLossAndPart.loss, OwnTaskLoss.task_loss

    def output_coefficient(self, task):
        return super().output_coefficient(task)


class OwnOutputs(HyperMask):
    def outputs(self, tasks):
        return super().outputs(tasks)


def small_model(kind: type[HyperMask] = HyperMask) -> HyperMask:
    torch.manual_seed(0)
    return kind(MLP(5, (3,), 2), tasks=2, embedding_size=2, hypernetwork_hidden=(3,))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (OwnLoss, "OwnLoss changes loss, in whose place it calls task_loss"),
        (OwnBackward, "OwnBackward changes backward, in whose place it calls task_loss"),
        (OwnLossAndPart, "OwnLossAndPart changes loss, in whose place it calls task_loss"),
        (OwnOutputs, "OwnOutputs changes outputs, in whose place it calls hidden"),
    ],
)
def test_a_method_that_changes_what_would_not_be_called_is_trained_eagerly(kind, reason):
    with pytest.warns(UserWarning, match=f"the eager engine is used, since the fused one cannot run here: {reason}"):
        assert engine_for("auto", small_model(kind)).name == "eager"


def test_a_method_that_changes_what_is_called_is_fused():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses = [engine_for("auto", small_model(kind)).step(0).item() for kind in (HyperMask, OwnTaskLoss)]
        assert engine_for("auto", small_model(OwnTaskLoss)).name == "fused"
        # Who gives all the parts answers for the whole.
        assert engine_for("auto", small_model(OwnAll)).name == "fused"
    assert losses[1] == pytest.approx(losses[0] + 1)


def test_a_hypernetwork_of_ones_own_whose_output_layer_is_another_is_trained_eagerly():
    method = small_model()
    method.hypernetwork = HMLP(
        [list(tensor.shape) for tensor in method.masked],
        cond_in_size=2,
        layers=[3],
        activation_fn=nn.ReLU(),
        num_cond_embs=2,
        verbose=False,
    )
    reason = "HyperMask's outputs are not its output layer applied to its hidden"
    with pytest.warns(UserWarning, match=reason):
        assert engine_for("auto", method).name == "eager"


class CapturableLoss(Plain):
    capturable = True


class AnotherLoss(CapturableLoss):
    def loss(self, *arguments):
        return super().loss(*arguments)


class Dropping(MLP):
    """A network of one's own."""


def test_what_a_cuda_graph_would_freeze_is_captured_only_where_the_method_says_so():
    assert not fused._capturable(Plain())
    assert fused._capturable(CapturableLoss())
    assert not fused._capturable(AnotherLoss()), "a step of its own, of which nothing is said"
    assert fused._capturable(small_model())
    assert not fused._capturable(small_model(OwnTaskLoss))
    own = HyperMask(Dropping(5, (3,), 2), tasks=2, embedding_size=2, hypernetwork_hidden=(3,))
    assert not fused._capturable(own)
    own.capturable = True
    assert fused._capturable(own)
    assert fused._capturable(WSN(MLP(5, (3,), 2), tasks=2, c=50.0))
    assert not fused._capturable(WSN(Dropping(5, (3,), 2), tasks=2, c=50.0))


def test_an_engine_is_gone_with_its_task():
    # Frames of imports that are made at the first use hold the first engine of a process until they are collected.
    engine_for("fused", small_model()).step(0)
    gc.collect()
    gc.disable()
    try:
        runner = engine_for("fused", small_model())
        runner.step(0)
        gone = weakref.ref(runner)
        del runner
        assert gone() is None, "a reference cycle would keep a task's memory on a GPU"
    finally:
        gc.enable()


def test_a_precision_without_a_kernel_is_one_sentence():
    with pytest.raises(HyperMaskError, match=r"it has no kernel for torch\.bfloat16 weights on cpu; use --engine"):
        engine_for("fused", model(torch.bfloat16))


def test_the_fused_engine_refuses_steps_that_are_none_of_adam():
    training = TrainingConfig(iterations=1, optimizer="sgd")
    method = model(torch.float32)
    method.begin_task(0)
    with pytest.raises(HyperMaskError, match=r"its kernel takes steps of Adam, not of sgd"):
        make("fused", method, 0, training, 1, batches(0, 1, torch.float32))


def test_two_steps_of_sgd_by_hand():
    weight = nn.Parameter(torch.tensor([2.0]))
    sgd = optimizers.make(
        TrainingConfig(iterations=1, lr=0.1, optimizer="sgd", momentum=0.9, weight_decay=0.5), [weight]
    )
    for gradient in (3.0, -1.0):
        weight.grad = torch.tensor([gradient])
        sgd.step()
    # g = 3 + 0.5 * 2 = 4, w = 2 - 0.4 = 1.6; g = -1 + 0.5 * 1.6 = -0.2, v = 0.9 * 4 - 0.2 = 3.4, w = 1.6 - 0.34.
    assert weight.item() == pytest.approx(1.26)


def test_an_unknown_engine_is_one_sentence():
    with pytest.raises(HyperMaskError, match=r"^engine 'turbo' is not known; expected auto, eager, fused"):
        engine_for("turbo", Plain())


def test_the_kernel_names_its_compiler():
    method = model(torch.float32)
    method.begin_task(0)
    runner = make("fused", method, 0, TrainingConfig(iterations=1), 1, batches(0, 1, torch.float32))
    assert runner.name == "fused"
    assert any(word in runner.kernel.lower() for word in ("gcc", "cc (", "clang"))


def test_a_rate_on_the_device_is_changed_in_place():
    """A captured step reads the tensor that it was captured with."""
    rate = torch.tensor(1.0)
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=rate)
    optimizers.set_rate(optimizer, 0.25)
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == 0.25


def test_batches_are_the_same_for_a_number_and_for_a_tensor_of_it():
    benchmark = split_digits(tasks=2)
    data = benchmark.task(1)
    order = torch.arange(12).view(4, 3)
    given = Batches(benchmark, data, order, torch.Generator().manual_seed(1))
    for iteration in (0, 3):
        inputs, labels = given.at(iteration)
        again, labels_again = given.at(torch.tensor([iteration]))
        assert torch.equal(inputs, again) and torch.equal(labels, labels_again)
        assert torch.equal(labels, data.train.labels[order[iteration]])


def test_without_triton_a_gpu_has_no_fused_engine(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypermask.engine.output_layer_cuda", None)
    with pytest.raises(UnavailableError, match=r"^Triton is not installed$"):
        fused._kind_of_layer(SimpleNamespace(device=torch.device("cuda"), dtype=torch.float32))
