"""How well a method's network of a task does on a set of images, and samples of its logits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
import torch.nn.functional as F

from hypermask.benchmarks.base import Benchmark, Split
from hypermask.methods.base import Method
from hypermask.seeds import generator

# Images per batch where the task's identity is inferred, as in the released code.
BATCH = 2000


def in_batches(benchmark: Benchmark, task: int, split: Split) -> Iterator[torch.Tensor]:
    """Network inputs [up to 2000, *input_shape] for the images of a split of `task`, in their order, not augmented."""
    for images in split.images.split(BATCH):
        yield benchmark.prepare(images, task)


@contextmanager
def predicting(method: Method) -> Iterator[None]:
    """The method in evaluation mode, as layers such as dropout ask for, and afterwards as it was."""
    training = method.training
    method.eval()
    try:
        yield
    finally:
        method.train(training)


@torch.no_grad()
def evaluate(method: Method, benchmark: Benchmark, task: int, split: Split) -> tuple[float, float]:
    """Accuracy (percent) and mean cross-entropy of the network of `task` on a split of that task, in one batch.

    One batch, because the paper's batch-norm layers use its statistics.
    """
    with predicting(method):
        logits = method.logits(benchmark.prepare(split.images, task), task)
    # A network shared by tasks may have outputs for the largest of them.
    logits = logits[:, : len(benchmark.task(task).classes)]
    loss = F.cross_entropy(logits, split.labels)
    correct = (logits.argmax(dim=1) == split.labels).sum()
    return 100.0 * correct.item() / len(split.labels), loss.item()


@torch.no_grad()
def sample_logits(method: Method, benchmark: Benchmark, seed: int, per_task: int) -> dict[str, np.ndarray]:
    """Logits of a seeded sample of each task's test images, in the networks of their tasks and in the shared one.

    Returns float32 `masked` [T, n, k] and, if the method has a network without masks with as many outputs, `unmasked`
    [T, n, k], and `labels` [T, n], absolute classes (task * k + class where tasks share their classes); n =
    min(per_task, smallest test set). {} where the tasks' networks differ in k.
    """
    tasks = [benchmark.task(index) for index in range(benchmark.tasks)]
    count = min(per_task, *(len(task.test.labels) for task in tasks))
    masked, unmasked, labels = [], [], []
    with predicting(method):
        for task in tasks:
            draw = generator(seed, "logits sample", task.index)
            chosen = torch.randperm(len(task.test.labels), generator=draw)[:count].to(task.test.labels.device)
            inputs = benchmark.prepare(task.test.images[chosen], task.index)
            masked.append(method.logits(inputs, task.index).float().cpu().numpy())
            plain = method.unmasked_logits(inputs)
            if plain is not None:
                unmasked.append(plain.float().cpu().numpy())
            absolute = np.asarray(task.classes)
            labels.append(absolute[task.test.labels[chosen].cpu().numpy()])
    if len({logits.shape[1] for logits in masked}) > 1:
        return {}
    arrays = {"masked": np.stack(masked), "labels": np.stack(labels).astype(np.int64)}
    shared = np.stack(unmasked) if unmasked else None
    if shared is not None and shared.shape == arrays["masked"].shape:
        arrays["unmasked"] = shared
    return arrays
