"""HNET: a chunked hypernetwork that generates the whole network of a task from the task's embedding.

The paper's baseline (sec. 3; von Oswald et al., Continual learning with hypernetworks, ICLR 2020). Networks of earlier
tasks are held in place through the hypernetwork's outputs, as in HyperMask, but with a look-ahead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import nn

from hypermask import objective
from hypermask.config import HNETConfig, section_to_dict
from hypermask.methods.base import Method, Network
from hypermask.seeds import global_generator

_ACTIVATIONS = {"relu": nn.ReLU, "elu": nn.ELU}


class HNET(Method):
    """The hypernetwork H (hypnettorch's ChunkedHMLP, weights Phi) and the target network f (its MLP, no own weights).

    H maps the embedding e_t of task t and one embedding per chunk to the P weights and biases of f, chunk by chunk; the
    network of task t is f(x; H(e_t)). Chunk embeddings belong to Phi. While task t trains,

        L = L_current + beta / (t - 1) * sum over j < t of |H(e_j; Phi + delta Phi) - H(e_j; Phi*)|^2

    where Phi* are the weights before task t and delta Phi, a constant, is the step Adam would take on L_current alone.
    Only e_t trains besides Phi: embeddings of finished tasks are frozen. The method gives e_t an Adam of its own at
    the same rate; as Adam treats every number by itself, one Adam for both is the same.

    input_shape: one sample's, without the batch.  seed: initialises Phi and the embeddings, N(0, 1). As HNET's authors
    do, weights start by Xavier's uniform rule and biases at zero; hypnettorch's default, U(+-1/sqrt(fan in)), starts
    the generated networks with much larger weights.
    """

    sources: ClassVar[tuple[str, ...]] = ("methods/hnet.py", "objective.py")
    capturable = True

    def __init__(
        self, settings: HNETConfig, *, tasks: int, input_shape: Sequence[int], classes: int, seed: int
    ) -> None:
        # hypnettorch imports matplotlib and scipy: only where a network is built.
        from hypnettorch.hnets import ChunkedHMLP
        from hypnettorch.mnets import MLP

        super().__init__()
        self.settings = settings
        self.tasks = tasks
        self.target = MLP(
            n_in=math.prod(input_shape),
            n_out=classes,
            hidden_layers=settings.target_hidden,
            activation_fn=_ACTIVATIONS[settings.target_activation](),
            no_weights=True,
            verbose=False,
        )
        with global_generator(seed, "hypernetwork initialisation"):
            self.hypernetwork = ChunkedHMLP(
                self.target.param_shapes,
                settings.chunk_size,
                chunk_emb_size=settings.chunk_embedding_size,
                cond_in_size=settings.embedding_size,
                layers=list(settings.hypernetwork_hidden),
                activation_fn=_ACTIVATIONS[settings.hypernetwork_activation](),
                num_cond_embs=tasks,
                verbose=False,
            )
            if settings.initialisation == "xavier":
                for weight in self.hypernetwork.layer_weight_tensors:
                    nn.init.xavier_uniform_(weight)
                for bias in self.hypernetwork.layer_bias_vectors:
                    nn.init.zeros_(bias)
        self._train_embedding_of(None)
        self._stored_outputs: torch.Tensor | None = None

    @property
    def phi(self) -> list[nn.Parameter]:
        """Phi: the hypernetwork's weights, biases and chunk embeddings, all that the tasks share."""
        return self.hypernetwork.unconditional_params

    def outputs(self, tasks: Sequence[int], phi: Sequence[torch.Tensor] | None = None) -> torch.Tensor:
        """H(e_t; phi) for several tasks in one pass: [len(tasks), P]; phi is the hypernetwork's own by default."""
        weights = None if phi is None else {"uncond_weights": list(phi)}
        return self.hypernetwork(cond_id=list(tasks), weights=weights, ret_format="flattened")

    def generated(self, task: int) -> list[torch.Tensor]:
        """H(e_t) cut into the target's weights and biases."""
        # One split: hypnettorch's own cuts tensor by tensor, each with a gradient as large as the whole.
        shapes = self.target.param_shapes
        parts = self.outputs([task])[0].split([math.prod(shape) for shape in shapes])
        return [part.view(*shape) for part, shape in zip(parts, shapes, strict=True)]

    def logits(self, inputs: torch.Tensor, task: int) -> torch.Tensor:
        """f(x; H(e_t)): class scores [B, k] for inputs [B, ...]."""
        return self.target(inputs.flatten(1), weights=self.generated(task))

    def task_network(self, task: int) -> Network:
        """The network of a task, its weights generated once."""
        weights = self.generated(task)
        return Network(
            lambda inputs: self.target(inputs.flatten(1), weights=weights), partial(self.features, task=task)
        )

    def begin_task(self, task: int) -> None:
        """Keep H(e_j; Phi*) of all previous tasks j, and let the embedding of this task alone train."""
        self._train_embedding_of(task)
        with torch.no_grad():
            self._stored_outputs = self.outputs(range(task)).clone() if task > 0 else None

    def end_task(self, task: int) -> None:
        self._train_embedding_of(None)
        self._stored_outputs = None

    def loss(
        self, inputs: torch.Tensor, labels: torch.Tensor, task: int, iteration: int, iterations: int
    ) -> torch.Tensor:
        """L_current; `backward` adds the other term, which needs this one's gradient."""
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
        """The gradient of L, one pass over all previous tasks included, put into the parameters; returns L."""
        current = super().backward(inputs, labels, task, iteration, iterations, optimizer)
        if task == 0:
            return current
        # No gradient flows through delta Phi, so the gradient at Phi + delta Phi is the one for Phi.
        ahead = [phi + delta for phi, delta in zip(self.phi, adam_step(optimizer, self.phi), strict=True)]
        held = self.settings.beta * objective.l_output(self.outputs(range(task), ahead), self._stored_outputs)
        held.backward()
        return current + held.detach()

    def describe(self) -> dict[str, Any]:
        return section_to_dict(self.settings)

    def _train_embedding_of(self, task: int | None) -> None:
        for index, embedding in enumerate(self.hypernetwork.conditional_params):
            embedding.requires_grad_(index == task)


@torch.no_grad()
def adam_step(optimizer: torch.optim.Adam, parameters: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What `optimizer.step()` would add to each parameter for the gradients they hold now.

    Neither the optimizer's state nor the parameters are touched, and no value is asked of the device.
    hypnettorch's `calc_delta_theta` is not used: it adds epsilon before the bias correction, as PyTorch's Adam no
    longer does, and asks the device for the step count.
    """
    groups = {id(parameter): group for group in optimizer.param_groups for parameter in group["params"]}
    steps = []
    for parameter in parameters:
        group, gradient = groups[id(parameter)], parameter.grad
        beta1, beta2 = group["betas"]
        # Adam makes its state at the first step.
        state = optimizer.state.get(parameter) or {
            "step": torch.zeros((), device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
        count = state["step"].double() + 1
        mean = state["exp_avg"].lerp(gradient, 1 - beta1)
        square = (state["exp_avg_sq"] * beta2).addcmul_(gradient, gradient, value=1 - beta2)
        denominator = square.div_(1 - beta2**count).sqrt_().add_(group["eps"])
        steps.append(mean.div_(denominator).mul_(-group["lr"] / (1 - beta1**count)))
    return steps
