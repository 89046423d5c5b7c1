"""HyperMask: a hypernetwork that turns a task's embedding into a semi-binary mask over a target network (sec. 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from hypermask import objective, substitution, targets
from hypermask.batch_statistics import TaskStatistics
from hypermask.config import HyperMaskConfig, section_from_dict, section_to_dict
from hypermask.errors import HyperMaskError
from hypermask.evaluation import predicting
from hypermask.mask import scheduled_sparsity, sparsify_all
from hypermask.methods.base import Method, Network, last_linear_input
from hypermask.seeds import global_generator

LAST = "last"
# What the configuration of a network of one's own does not tell, with values that the settings take instead.
_NOT_KNOWN = {"target_hidden": (), "target_activation": "relu"}
# Entries of a record's configuration that are no arguments of `HyperMask`.
_NOT_ARGUMENTS = ("name", "network", "target", "target_hidden", "target_activation", "target_stem")


@dataclass(frozen=True)
class MaskedTensor:
    """Where one target parameter's mask lies in the hypernetwork's output."""

    name: str
    shape: torch.Size
    start: int
    stop: int


class HyperMask(Method):
    """HyperMask over any target network.

    The hypernetwork H (hypnettorch's HMLP, ELU) maps the embedding e_t of task t to P values, one for each weight and
    bias of the target network f except those of batch-norm layers. The mask is sigma_p(|tanh(H(e_t))|), tensor by
    tensor; the network of task t is f(x; theta * mask_t). The output bias has a value in the hypernetwork's output but
    is neither sparsified nor multiplied. Batch-norm layers use the statistics of the current batch, at evaluation too,
    unless batch_stats is `task`: then a learned task's network predicts with those of all its training images. Their
    scale and shift are shared by all tasks.

    target: any `nn.Module` with floating-point parameters; tied parameters, and a layer in several places, get one
    mask; buffers stay as they are, and so do parameters that require no gradient. Its own weights train, so give each
    model a network of its own. On a GPU the steps with a network of your own become a CUDA graph if you set
    `capturable` (see `Method`) on the model.
    tasks: number of tasks T, one embedding each.  output_bias: the name of the parameter that stays unmasked; None for
    none; `last`, the bias of the linear layer or convolution that comes last.  The other arguments are those of
    `HyperMaskConfig`; p is in percent.  seed: initialises the hypernetwork and the embeddings.
    """

    sources: ClassVar[tuple[str, ...]] = (
        "batch_statistics.py",
        "mask.py",
        "model.py",
        "objective.py",
        "substitution.py",
        "targets.py",
    )
    capturable = True

    def __init__(
        self,
        target: nn.Module,
        *,
        tasks: int,
        embedding_size: int = 128,
        hypernetwork_hidden: Sequence[int] = (25, 25),
        beta: float = 1e-3,
        lam: float = 1e-3,
        p: float = 0.0,
        l1: str = "masked",
        trainable_target: bool = True,
        output_regularizer: str = "paper",
        batch_stats: str = "batch",
        norm_parameters: str = "with-target",
        output_bias: str | None = LAST,
        seed: int = 1,
    ) -> None:
        super().__init__()
        if not isinstance(tasks, Integral) or tasks < 1:
            raise HyperMaskError(f"tasks is {tasks!r}; expected a whole number, at least 1.")
        tasks = int(tasks)
        if not isinstance(target, nn.Module):
            raise HyperMaskError(f"the target is a {type(target).__name__}; expected a torch.nn.Module, a network.")
        self.settings = section_from_dict(
            HyperMaskConfig,
            {
                "target": type(target).__name__,
                **_NOT_KNOWN,
                "trainable_target": trainable_target,
                "embedding_size": embedding_size,
                "hypernetwork_hidden": hypernetwork_hidden,
                "beta": beta,
                "lam": lam,
                "p": p,
                "l1": l1,
                "output_regularizer": output_regularizer,
                "batch_stats": batch_stats,
                "norm_parameters": norm_parameters,
            },
        )
        # Whether the settings tell the whole target, as those of a named configuration do.
        self._named = False
        self.tasks = tasks
        self.target = target
        if type(target).__module__ != targets.__name__:
            # What it does in its forward is not known: a CUDA graph would freeze draws and decisions of Python.
            self.capturable = False
        self.masked = _layout(target)
        self.output_bias = _output_bias(target, self.masked, output_bias)
        _use_batch_statistics(target)
        self.task_statistics = TaskStatistics(target, tasks) if batch_stats == "task" else None
        if not trainable_target:
            target.requires_grad_(False)
        elif not any(parameter.requires_grad for parameter in target.parameters()):
            raise HyperMaskError(
                f"no parameter of {type(target).__name__} requires a gradient, so it cannot train; make a new one, or "
                "say trainable_target=False."
            )
        if norm_parameters == "always":
            for parameter in _norm_parameters(target):
                parameter.requires_grad_()
        self.hypernetwork = _hypernetwork(self.masked, tasks, self.settings, seed)
        self._stored_outputs: torch.Tensor | None = None
        self._stored_theta: list[torch.Tensor] = []

    @classmethod
    def from_config(
        cls, config: HyperMaskConfig, *, tasks: int, input_shape: Sequence[int], classes: int, seed: int
    ) -> HyperMask:
        """The model of a named configuration; target and hypernetwork are initialised from `seed`."""
        with global_generator(seed, "target initialisation"):
            target = targets.build(
                config.target, config.target_hidden, config.target_activation, input_shape, classes, config.target_stem
            )
        model = cls(target, tasks=tasks, seed=seed, **_arguments(section_to_dict(config)))
        model.settings, model._named = config, True
        return model

    # -- the network of a task
    # ---------------------------------------------------------------------------------------------

    def outputs(self, tasks: Sequence[int]) -> torch.Tensor:
        """H(e_t, 0; Phi) before tanh for several tasks in one pass: [len(tasks), P]."""
        return self.hypernetwork(cond_id=list(tasks), ret_format="flattened")

    def hidden(self, tasks: Sequence[int]) -> torch.Tensor:
        """The hypernetwork's last hidden layer for several tasks: [len(tasks), h]; `outputs` is linear in it."""
        signal = torch.stack([self.hypernetwork.conditional_params[task] for task in tasks])
        *weights, _ = self.hypernetwork.layer_weight_tensors
        *biases, _ = self.hypernetwork.layer_bias_vectors
        for weight, bias in zip(weights, biases, strict=True):
            signal = F.elu(F.linear(signal, weight, bias))
        return signal

    def output_layer(self) -> tuple[nn.Parameter, nn.Parameter]:
        """Weight [P, h] and bias [P] of the hypernetwork's output layer."""
        return self.hypernetwork.layer_weight_tensors[-1], self.hypernetwork.layer_bias_vectors[-1]

    def masks_from(self, output: torch.Tensor, p: float | torch.Tensor) -> dict[str, torch.Tensor]:
        """m_t = sigma_p(|tanh(h)|) for one task's hypernetwork output [P], by parameter name; p in percent.

        The output bias has a mask value too, which is not sparsified.
        """
        sizes = tuple(tensor.shape.numel() for tensor in self.masked)
        percents = [0.0 if tensor.name == self.output_bias else p for tensor in self.masked]
        parts = sparsify_all(output.tanh().abs(), sizes, percents)
        return {tensor.name: part.view(tensor.shape) for tensor, part in zip(self.masked, parts, strict=True)}

    def masks(self, task: int, p: float | None = None) -> dict[str, torch.Tensor]:
        """The semi-binary masks of a task (0-based) by parameter name; p in percent, the model's own by default."""
        self._check_task(task)
        return self.masks_from(self.outputs([task])[0], self.settings.p if p is None else p)

    def _apply_masks(
        self, masks: dict[str, torch.Tensor], inputs: torch.Tensor, statistics_of: int | None = None
    ) -> torch.Tensor:
        """f(x; theta * m_t); batch norm by the batch's statistics, or those kept for the task `statistics_of`."""
        theta = dict(self.target.named_parameters())
        masked = {name: theta[name] * mask for name, mask in masks.items() if name != self.output_bias}
        keeps = self.task_statistics is not None and statistics_of is not None
        with self.task_statistics.of(statistics_of) if keeps else nullcontext():
            return substitution.call(self.target, masked, inputs)

    def logits(self, inputs: torch.Tensor, task: int, p: float | None = None) -> torch.Tensor:
        """f(x; theta * m_t): class scores [B, k] for inputs [B, ...]; always with the final p unless another is
        given."""
        return self._apply_masks(self.masks(task, p), inputs, task)

    def features(self, inputs: torch.Tensor, task: int) -> torch.Tensor:
        """Input of the last linear layer that the target calls, in the network of a task: [B, d]."""
        return self._features(self.masks(task), inputs, task)

    def task_network(self, task: int) -> Network:
        """The network of a task, its masks made once."""
        masks = self.masks(task)
        return Network(
            partial(self._apply_masks, masks, statistics_of=task), partial(self._features, masks, statistics_of=task)
        )

    def _features(self, masks: dict[str, torch.Tensor], inputs: torch.Tensor, statistics_of: int) -> torch.Tensor:
        return last_linear_input(self.target, lambda: self._apply_masks(masks, inputs, statistics_of))

    def unmasked_logits(self, inputs: torch.Tensor) -> torch.Tensor:
        """f(x; theta): the target network without any mask."""
        return self.target(inputs)

    # -- learning a task (Algorithm 1)
    # -------------------------------------------------------------------------------------

    @torch.no_grad()
    def begin_task(self, task: int) -> None:
        """Keep theta*, which L_target compares with; `loss` keeps the outputs of all previous tasks when it is first
        called."""
        self._check_task(task)
        self._stored_outputs, self._stored_theta = None, []
        if task > 0 and self.settings.trainable_target:
            self._stored_theta = [theta.clone() for theta in self.masked_theta()]

    def end_task(self, task: int) -> None:
        """What the regularisers compared with is of no use any more."""
        self._stored_outputs, self._stored_theta = None, []

    def loss(
        self, inputs: torch.Tensor, labels: torch.Tensor, task: int, iteration: int, iterations: int
    ) -> torch.Tensor:
        """L = L_current + beta L_output + [theta trains] lambda L_target (sec. 3); one hypernetwork pass for all
        tasks."""
        outputs = self.outputs(range(task + 1))
        loss = self.task_loss(outputs[task], inputs, labels, task, iteration, iterations)
        if task > 0:
            if self._stored_outputs is None:
                # From this pass and not before: the fused engine never needs them, and equal shapes round equally, so
                # that the first distance is exactly zero. Adam would blow noise in its gradient up to full steps.
                self._stored_outputs = outputs[:task].detach().clone()
            weight = objective.output_weight(self.settings.beta, task, self.settings.output_regularizer)
            loss = loss + weight * objective.l_output(outputs[:task], self._stored_outputs)
        return loss

    @torch.no_grad()
    def collect_statistics(self, task: int, inputs: Callable[[], torch.Tensor], labels: torch.Tensor) -> None:
        """With batch_stats `task`, keep the statistics of all training inputs in the network of the task."""
        if self.task_statistics is None:
            return
        with predicting(self), self.task_statistics.collecting(task):
            self._apply_masks(self.masks(task), inputs())

    def output_coefficient(self, task: int) -> float:
        """The factor of the summed squared distance in beta L_output while `task` (0-based, at least 1) trains."""
        return objective.output_weight(self.settings.beta, task, self.settings.output_regularizer) / task

    def task_loss(
        self,
        output: torch.Tensor,
        inputs: torch.Tensor,
        labels: torch.Tensor,
        task: int,
        iteration: int,
        iterations: int,
    ) -> torch.Tensor:
        """The terms of the loss that involve the current task's hypernetwork output [P]: L_current + lambda
        L_target."""
        masks = self.masks_from(output, scheduled_sparsity(self.settings.p, task, iteration, iterations))
        loss = objective.l_current(self._apply_masks(masks, inputs), labels)
        if task > 0 and self.settings.trainable_target and self.settings.lam > 0:
            weights = list(masks.values()) if self.settings.l1 == "masked" else None
            loss = loss + self.settings.lam * objective.l_target(self.masked_theta(), self._stored_theta, weights)
        return loss

    # -- what others ask
    # ---------------------------------------------------------------------------------------------------

    def masked_theta(self) -> list[torch.Tensor]:
        """The target parameters that the hypernetwork's output covers, in the order of `masked`."""
        theta = dict(self.target.named_parameters())
        return [theta[tensor.name] for tensor in self.masked]

    def shared_layers(self) -> dict[str, torch.Tensor]:
        """Weights and bias of each layer of a trainable target, flattened together (tables 5-7); {} for a fixed one."""
        if not self.settings.trainable_target:
            return {}
        layers: dict[str, list[torch.Tensor]] = {}
        for tensor, theta in zip(self.masked, self.masked_theta(), strict=True):
            layers.setdefault(tensor.name.rpartition(".")[0] or tensor.name, []).append(theta.detach().flatten())
        return {name: torch.cat(parts) for name, parts in layers.items()}

    def describe(self) -> dict[str, Any]:
        values = section_to_dict(self.settings)
        if self._named:
            return values
        return {key: value for key, value in values.items() if key not in _NOT_KNOWN} | {
            "output_bias": self.output_bias
        }

    @classmethod
    def load(cls, run: str | Path, task: int, target: nn.Module | None = None) -> HyperMask:
        """The model as it was after training `task` (0-based), from a run kept with `--keep-weights`.

        run: the record's JSON file.  target: a fresh copy of your own network, if the run trained one; networks of
        named configurations are built from the record.  Every weight equals the trained one to the last bit.
        """
        from hypermask import records
        from hypermask.checkpoints import load_tensors, weights_path

        record = records.read(Path(run))
        if (name := record.config["method"].get("name")) != "hypermask":
            raise HyperMaskError(
                f"{record.path.name} is a run of {name or record.experiment}, and this makes HyperMask alone; make the "
                "method as for training, and give set_weights what hypermask.checkpoints.load_tensors reads."
            )
        path = weights_path(record.path, task)
        try:
            weights, facts = load_tensors(path)
        except FileNotFoundError:
            raise HyperMaskError(
                f"{path.name} is not beside the record; weights exist for runs made with --keep-weights, tasks 0 to "
                f"{record.tasks - 1}."
            ) from None
        except ValueError as error:
            raise HyperMaskError(f"{error}; run the experiment again.") from None
        # Weights kept by earlier versions do not tell.
        if facts.get("accuracy") not in (None, record.payload["accuracy"][task][: task + 1]):
            raise HyperMaskError(f"{path.name} is of another run than the record beside it; run the experiment again.")
        values = dict(record.config["method"])
        if target is None and "network" in values:
            raise HyperMaskError(
                f"{record.experiment} was trained on a network of its own ({values['target']}); pass a fresh copy of "
                "it as `target`."
            )
        if target is None:
            model = cls.from_config(
                section_from_dict(HyperMaskConfig, values),
                tasks=record.tasks,
                input_shape=facts["input_shape"],
                classes=facts["classes"],
                seed=record.seed,
            )
        else:
            model = cls(target, tasks=record.tasks, seed=record.seed, **_arguments(values))
        try:
            model.set_weights(weights)
        except (ValueError, RuntimeError):
            raise HyperMaskError(
                f"{path.name} holds the weights of another network than {type(model.target).__name__}; pass the one "
                "that was trained as `target`."
            ) from None
        # As after training: layers such as dropout are off.
        return model.eval()

    def _check_task(self, task: int) -> None:
        if not 0 <= task < self.tasks:
            raise HyperMaskError(f"task {task} does not exist; this model has tasks 0 to {self.tasks - 1}.")


def _arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a configuration that are arguments of `HyperMask`."""
    return {key: value for key, value in values.items() if key not in _NOT_ARGUMENTS}


def _layout(target: nn.Module) -> tuple[MaskedTensor, ...]:
    """Which parameters have a value in the hypernetwork's output, and where."""
    excluded = {id(parameter) for parameter in _norm_parameters(target)}
    kind = type(target).__name__
    masked, start = [], 0
    for name, parameter in target.named_parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise HyperMaskError(
                f"{kind} has the uninitialised parameter {name}; run it on one batch before masking it."
            )
        if not parameter.is_floating_point():
            raise HyperMaskError(
                f"{kind}'s parameter {name} is {parameter.dtype}; masks need floating-point parameters."
            )
        if id(parameter) in excluded:
            continue
        masked.append(MaskedTensor(name, parameter.shape, start, start + parameter.numel()))
        start += parameter.numel()
    if not masked:
        raise HyperMaskError(
            f"{kind} has no parameters outside batch-norm layers; pass a network with weights to mask."
        )
    return tuple(masked)


def _output_bias(target: nn.Module, masked: Sequence[MaskedTensor], chosen: str | None) -> str | None:
    """The name of the parameter that stays unmasked, None if there is none."""
    last = masked[-1]
    if chosen is None or (chosen == LAST and (len(last.shape) != 1 or len(masked) == 1)):
        return None
    names = {tensor.name for tensor in masked}
    name = last.name if chosen == LAST else chosen
    module, _, parameter = name.rpartition(".")
    known = name in names and (
        chosen != LAST or (parameter == "bias" and isinstance(target.get_submodule(module), nn.Linear | _ConvNd))
    )
    if not known:
        biases = [name for name in sorted(names) if name.endswith("bias")]
        raise HyperMaskError(
            f"{name} of {type(target).__name__} is no output bias; name the output layer's with output_bias "
            f"({', '.join(biases) or 'there is none'}), or say output_bias=None."
        )
    return name


def _norm_parameters(target: nn.Module) -> list[nn.Parameter]:
    """Scale and shift of all batch-norm layers."""
    layers = [module for module in target.modules() if isinstance(module, _BatchNorm)]
    return [parameter for layer in layers for parameter in layer.parameters(recurse=False)]


def _use_batch_statistics(target: nn.Module) -> None:
    for module in target.modules():
        if isinstance(module, _BatchNorm):
            module.track_running_stats = False
            module.running_mean = module.running_var = module.num_batches_tracked = None


def _hypernetwork(masked: Sequence[MaskedTensor], tasks: int, settings: HyperMaskConfig, seed: int) -> nn.Module:
    # hypnettorch imports matplotlib and scipy: only where a network is built.
    from hypnettorch.hnets import HMLP

    with global_generator(seed, "hypernetwork initialisation"):
        return HMLP(
            [list(tensor.shape) for tensor in masked],
            cond_in_size=settings.embedding_size,
            layers=list(settings.hypernetwork_hidden),
            activation_fn=nn.ELU(),
            num_cond_embs=tasks,
            verbose=False,
        )
