"""A plain training loop to measure against: what the authors' released loop is described to do, and no faster.

Written from a description of that loop, not from its code. Batches are float64 arrays on the host, converted at every
iteration; Split MNIST's images are augmented one by one through PIL; the output regulariser passes the hypernetwork
once for each previous task (hypnettorch's); thresholds come from sorting each tensor; Adam is made with PyTorch's
defaults; loss, accuracy and a line of CSV reach the host at every iteration. It computes what the other engines
compute, within rounding, and nothing is added to slow it down.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import TextIO

import numpy as np
import torch
import torch.nn.functional as F
from torch.func import functional_call

from hypermask.benchmarks.augment import normalise
from hypermask.benchmarks.base import Benchmark
from hypermask.benchmarks.data import MNIST_MEAN, MNIST_STD
from hypermask.benchmarks.split_mnist import CROP_PADDING
from hypermask.config import TrainingConfig
from hypermask.mask import scheduled_sparsity
from hypermask.model import HyperMask
from hypermask.objective import output_weight
from hypermask.schedule import batch_order


class ReferenceLoop:
    """The steps of one task (0-based) of a HyperMask, which is on the device it trains on.

    benchmark: on the CPU, whatever the device.  training: of a fixed number of iterations.  seed: of the batch order.
    log: where each iteration's line of CSV goes: task and iteration from 1, loss, accuracy of the batch in percent.
    """

    def __init__(
        self, method: HyperMask, benchmark: Benchmark, task: int, training: TrainingConfig, seed: int, log: TextIO
    ) -> None:
        from hypnettorch.utils import hnet_regularizer

        self._method, self._task, self._iterations = method, task, training.iterations
        self._device = next(method.parameters()).device
        train = benchmark.task(task).train
        self._augment = _one_by_one(benchmark)
        self._normalise = getattr(benchmark, "normalise", False)
        images = train.images / 255 if self._augment else benchmark.prepare(train.images, task)
        self._images, self._labels = images.numpy().astype(np.float64), train.labels.numpy()
        self._order = batch_order(len(train), training.batch_size, training.iterations, seed, task).numpy()
        self._distance = hnet_regularizer.calc_fix_target_reg
        self._targets = hnet_regularizer.get_current_targets(task, method.hypernetwork) if task > 0 else []
        self._theta_before = [theta.detach().clone() for theta in method.masked_theta()]
        trained = [parameter for parameter in method.parameters() if parameter.requires_grad]
        self._optimizer = torch.optim.Adam(trained, lr=training.lr)
        self._log, self._lines = log, csv.writer(log)

    def step(self, iteration: int) -> float:
        """Run iteration `iteration` (from 0) and return its loss."""
        inputs, labels = self.batch(iteration)
        self._optimizer.zero_grad()
        loss, logits = self.loss(inputs, labels, iteration + 1)
        loss.backward()
        self._optimizer.step()
        correct = logits.detach().cpu().numpy().argmax(axis=1) == labels.cpu().numpy()
        value = loss.item()
        self._lines.writerow([self._task + 1, iteration + 1, value, 100 * correct.mean()])
        self._log.flush()
        return value

    def batch(self, iteration: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs [B, ...] and labels [B] of an iteration (from 0), moved from the host to the device."""
        chosen = self._order[iteration]
        images = torch.from_numpy(self._images[chosen]).float()
        if self._augment:
            images = torch.stack([self._augment(image) for image in images]).flatten(1)
            if self._normalise:
                images = normalise(images, MNIST_MEAN, MNIST_STD)
        return images.to(self._device), torch.from_numpy(self._labels[chosen]).to(self._device)

    def loss(self, inputs: torch.Tensor, labels: torch.Tensor, iteration: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss of `HyperMask.loss` for a batch at iteration 1, 2, ..., and the logits [B, k]."""
        method, settings = self._method, self._method.settings
        masks = self.masks(scheduled_sparsity(settings.p, self._task, iteration, self._iterations))
        theta = dict(method.target.named_parameters())
        masked = {name: theta[name] * mask for name, mask in masks.items() if name != method.output_bias}
        logits = functional_call(method.target, masked, (inputs,))
        loss = F.cross_entropy(logits, labels)
        if self._task > 0:
            weight = output_weight(settings.beta, self._task, settings.output_regularizer)
            loss = loss + weight * self._distance(method.hypernetwork, self._task, targets=self._targets)
        if self._task > 0 and settings.trainable_target:
            for mask, now, before in zip(masks.values(), method.masked_theta(), self._theta_before, strict=True):
                change = (now - before).abs()
                loss = loss + settings.lam * (mask * change if settings.l1 == "masked" else change).sum()
        return loss, logits

    def masks(self, p: float) -> dict[str, torch.Tensor]:
        """The masks of the task by parameter name, with p percent of each tensor below its percentile set to zero."""
        masks = {}
        for tensor, output in zip(self._method.masked, self._method.hypernetwork(cond_id=self._task), strict=True):
            mask = output.tanh().abs()
            if tensor.name != self._method.output_bias:
                lowest = torch.quantile(mask.detach(), p / 100)
                mask = torch.where(mask >= lowest, mask, 0.0)
            masks[tensor.name] = mask
        return masks


def _one_by_one(benchmark: Benchmark) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """The augmentation of one float image [C, H, W] by torchvision, through PIL and back; None if there is none."""
    if not getattr(benchmark, "augment", False):
        return None
    from torchvision import transforms

    crop = transforms.RandomCrop(benchmark.image_shape[1:], padding=CROP_PADDING)
    return transforms.Compose([transforms.ToPILImage(), crop, transforms.ToTensor()])
