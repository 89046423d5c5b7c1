"""WSN: winning subnetworks, one binary mask per task over weights that are frozen once used.

The paper's baseline (sec. 2; Kang et al., Forget-free continual learning with winning subnetworks, ICML 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from hypermask import objective, substitution, targets
from hypermask.config import WSNConfig, section_to_dict
from hypermask.errors import HyperMaskError
from hypermask.mask import sparsify_all
from hypermask.methods.base import Method
from hypermask.seeds import generator, global_generator


class WSN(Method):
    """A network whose weights all tasks share, each task through a binary mask, and one output layer per task.

    Each weight has a score that trains with it. The mask of the task in training keeps, tensor by tensor, the c percent
    of weights with the largest |score|; the gradient of a mask entry goes straight through to its |score|. A finished
    task keeps its mask, and a weight that any earlier task's mask keeps gets no gradient. Adam is made anew for every
    task, so a weight without gradient does not move, and a finished task's network never changes.

    Scores go on from task to task. Output layers are neither masked nor shared. The network has no biases, and batch
    norm neither running statistics nor scale and shift: shared by all tasks, they would change finished networks.

    target: its last weight is the output layer of the first task, the other tasks' have the same shape.  c: percent of
    each tensor's weights that a mask keeps.  seed: initialises scores and the other output layers.
    """

    sources: ClassVar[tuple[str, ...]] = (
        "mask.py",
        "methods/wsn.py",
        "objective.py",
        "substitution.py",
        "targets.py",
    )
    capturable = True

    def __init__(self, target: nn.Module, *, tasks: int, c: float, seed: int = 1) -> None:
        super().__init__()
        self.settings = WSNConfig(target=type(target).__name__, target_hidden=(), target_activation="relu", c=float(c))
        self.tasks = tasks
        self.target = target
        if type(target).__module__ != targets.__name__:
            # As in `HyperMask`: what a network of one's own does in its forward is not known.
            self.capturable = False
        _keep_weights_alone(target)
        *body, (self._output_name, output) = target.named_parameters()
        self._shapes = {name: weight.shape for name, weight in body}
        self._sizes = tuple(weight.numel() for _, weight in body)
        draw = generator(seed, "scores and output layers")
        self.scores = nn.Parameter(torch.cat([_uniform_like(weight, draw).flatten() for _, weight in body]))
        others = [nn.Parameter(_uniform_like(output, draw)) for _ in range(1, tasks)]
        self.output_layers = nn.ParameterList([output, *others])
        self.register_buffer("masks", torch.zeros(tasks, len(self.scores), dtype=torch.bool))
        self._training_task: int | None = None
        self._free: dict[str, torch.Tensor] = {}

    @classmethod
    def from_config(cls, config: WSNConfig, *, tasks: int, input_shape: Sequence[int], classes: int, seed: int) -> WSN:
        """The model of a named configuration; the target is initialised from `seed`, by PyTorch's layer defaults."""
        with global_generator(seed, "target initialisation"):
            target = targets.build(
                config.target, config.target_hidden, config.target_activation, input_shape, classes, config.target_stem
            )
        model = cls(target, tasks=tasks, c=config.c, seed=seed)
        model.settings = config
        return model

    def begin_task(self, task: int) -> None:
        self._training_task = task
        self._free = self._layers(1.0 - self.masks[:task].any(dim=0).to(self.scores.dtype)) if task > 0 else {}

    def end_task(self, task: int) -> None:
        """Keep the mask of the task; from now on its weights are frozen."""
        with torch.no_grad():
            self.masks[task] = self._mask_from_scores() > 0
        self._training_task, self._free = None, {}

    def loss(
        self, inputs: torch.Tensor, labels: torch.Tensor, task: int, iteration: int, iterations: int
    ) -> torch.Tensor:
        return objective.l_current(self.logits(inputs, task), labels)

    def backward(
        self,
        inputs: torch.Tensor,
        labels: torch.Tensor,
        task: int,
        iteration: int,
        iterations: int,
        optimizer: torch.optim.Optimizer,
    ) -> torch.Tensor:
        """The gradient of the loss, zero for every weight that an earlier task's mask keeps."""
        loss = super().backward(inputs, labels, task, iteration, iterations, optimizer)
        theta = dict(self.target.named_parameters())
        for name, free in self._free.items():
            theta[name].grad.mul_(free)
        return loss

    def logits(self, inputs: torch.Tensor, task: int) -> torch.Tensor:
        """f(x; theta * m_t) with the output layer of the task: class scores [B, k]."""
        theta = dict(self.target.named_parameters())
        if task == self._training_task:
            mask = self._mask_from_scores()
        elif self.masks[task].any():
            mask = self.masks[task]
        else:
            raise HyperMaskError(f"task {task} has no mask yet; train it before asking for its predictions.")
        masked = {name: theta[name] * part for name, part in self._layers(mask).items()}
        return substitution.call(self.target, {**masked, self._output_name: self.output_layers[task]}, inputs)

    def shared_layers(self) -> dict[str, torch.Tensor]:
        """The weights of each layer but the output layer, flattened."""
        theta = dict(self.target.named_parameters())
        return {name: theta[name].detach().flatten() for name in self._shapes}

    def describe(self) -> dict[str, Any]:
        return section_to_dict(self.settings)

    def _mask_from_scores(self) -> torch.Tensor:
        return _LargestShare.apply(self.scores.abs(), self._sizes, self.settings.c)

    def _layers(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        parts = zip(self._shapes.items(), flat.split(self._sizes), strict=True)
        return {name: part.view(shape) for (name, shape), part in parts}


class _LargestShare(torch.autograd.Function):
    """1 for the c percent largest values of each piece, 0 for the others; the gradient passes straight through.

    values: at least 0, cut into pieces of `sizes`.
    """

    @staticmethod
    def forward(ctx, values: torch.Tensor, sizes: tuple[int, ...], c: float) -> torch.Tensor:
        # A score may be of any size; in the same order below 1, as sigma_p wants its values.
        ordered = values / (1 + values)
        kept = sparsify_all(ordered, sizes, [100.0 - c] * len(sizes))
        return (torch.cat(kept) > 0).to(values.dtype)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return gradient, None, None


def _keep_weights_alone(target: nn.Module) -> None:
    for module in target.modules():
        if isinstance(module, _BatchNorm):
            module.affine = module.track_running_stats = False
            module.weight = module.bias = None
            module.running_mean = module.running_var = module.num_batches_tracked = None
        elif isinstance(getattr(module, "bias", None), nn.Parameter):
            module.bias = None


def _uniform_like(weight: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    """A tensor of the weight's shape, U(+-1/sqrt(fan_in)) as PyTorch's linear and convolutional layers start."""
    bound = weight[0].numel() ** -0.5
    return torch.empty_like(weight, requires_grad=False).uniform_(-bound, bound, generator=draw)
