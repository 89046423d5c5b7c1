"""A network trained on the first task alone, and classifiers of its features: baselines of table 2.

After the first task the network is frozen. Each task then adds what the classifier keeps of the task's training
features: class means, for FeCAM covariances too. The scores of all tasks' classes can be compared, so that the task of
an image need not be told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, ClassVar

import torch
from torch import nn

from hypermask import objective, targets
from hypermask.config import FrozenConfig, section_to_dict
from hypermask.errors import HyperMaskError
from hypermask.evaluation import BATCH, predicting
from hypermask.fecam import Prototypes, normalise, prototypes
from hypermask.inference import BestScore
from hypermask.methods.base import Method, last_linear_input
from hypermask.seeds import global_generator

# FeCAM's power of Tukey's ladder, for features of a network that has not seen their classes.
TUKEY = 0.5


class FrozenNetwork(Method):
    """A network that learns the first task by cross-entropy, and tells all tasks' classes apart by its features.

    Features are what enters its last linear layer. Batch norm predicts by running statistics, so a prediction does not
    depend on its batch.  input_shape: one sample's, without the batch.  classes: of each task.  seed: initialises it.
    """

    sources: ClassVar[tuple[str, ...]] = ("fecam.py", "methods/frozen.py", "objective.py", "targets.py")
    capturable = True

    def __init__(
        self, settings: FrozenConfig, *, tasks: int, input_shape: Sequence[int], classes: int, seed: int
    ) -> None:
        super().__init__()
        self.settings = settings
        self.tasks = tasks
        with global_generator(seed, "target initialisation"):
            self.target = targets.build(
                settings.target,
                settings.target_hidden,
                settings.target_activation,
                input_shape,
                classes,
                settings.target_stem,
            )
        self.classifier = CLASSIFIERS[settings.classifier](tasks, classes, self.target.output.in_features)
        self.register_buffer("learned", torch.zeros(tasks, dtype=torch.bool))

    def begin_task(self, task: int) -> None:
        """Only the first task trains anything."""
        for parameter in self.target.parameters():
            parameter.requires_grad_(task == 0)

    def loss(
        self, inputs: torch.Tensor, labels: torch.Tensor, task: int, iteration: int, iterations: int
    ) -> torch.Tensor:
        return objective.l_current(self.target(inputs), labels)

    @torch.no_grad()
    def collect_statistics(self, task: int, inputs: Callable[[], torch.Tensor], labels: torch.Tensor) -> None:
        """Let the classifier learn the task's classes from all its training images."""
        with predicting(self):
            features = torch.cat([self.features(part, task) for part in inputs().split(BATCH)])
        self.classifier.learn(task, features, labels)
        self.learned[task] = True

    def logits(self, inputs: torch.Tensor, task: int) -> torch.Tensor:
        """The classifier's scores of the task's classes [B, k]; while the first task trains, the network's own."""
        if self.learned[task]:
            return self.classifier.scores(task, self.features(inputs, task)).float()
        if task > 0:
            raise HyperMaskError(f"task {task} is not learned yet; train it before asking for its predictions.")
        return self.target(inputs)

    def features(self, inputs: torch.Tensor, task: int) -> torch.Tensor:
        return last_linear_input(self.target, lambda: self.target(inputs))

    def procedures(self) -> dict[str, type]:
        return {self.settings.classifier: BestScore}

    def describe(self) -> dict[str, Any]:
        return section_to_dict(self.settings)


class Classifier(nn.Module):
    """Scores of classes by features, comparable between tasks; what it keeps are buffers of a fixed size.

    Tasks are learned in their order, each with `classes` classes and features [N, size].
    """

    def __init__(self, tasks: int, classes: int, size: int) -> None:
        super().__init__()
        self._classes = classes
        self.register_buffer("means", torch.zeros(tasks, classes, size, dtype=torch.float64))

    def learn(self, task: int, features: torch.Tensor, labels: torch.Tensor) -> None:
        """Take in a task (0-based): training features [N, d] and labels [N] in 0..k-1, of every class some."""
        if not features.isfinite().all():
            raise HyperMaskError("some features are infinite or not a number; expected numbers, so train again.")
        absent = sorted(set(range(self._classes)) - set(labels.unique().tolist()))
        if absent:
            raise HyperMaskError(
                f"class {absent[0] + 1} of {self._classes} has no training image; the classifiers of frozen features "
                "need at least one of every class."
            )
        self.means[task] = torch.stack(
            [features[labels == label].double().mean(dim=0) for label in range(self._classes)]
        )

    def scores(self, task: int, features: torch.Tensor) -> torch.Tensor:
        """Score of each class of a learned task, float64 [B, k]; the highest of all tasks' classes wins."""
        raise NotImplementedError


class NearestClassMean(Classifier):
    """Minus the Euclidean distance to the class's mean, features and means scaled to length 1."""

    def scores(self, task: int, features: torch.Tensor) -> torch.Tensor:
        return -torch.cdist(normalise(features), normalise(self.means[task]))


class FeTrIL(Classifier):
    """A linear support vector classifier on the last task's features and on translated ones for all earlier classes.

    Features of an earlier class are those of the last task's class with the most similar mean (cosine), shifted by the
    difference of the two means. All are scaled to length 1 for the classifier (scikit-learn's LinearSVC, its defaults).
    Petit et al., FeTrIL, WACV 2023.
    """

    def __init__(self, tasks: int, classes: int, size: int) -> None:
        super().__init__(tasks, classes, size)
        # Known before the features are trained, not after.
        if find_spec("sklearn") is None:
            raise HyperMaskError(
                "FeTrIL's classifier comes with scikit-learn, which is not installed; run: pip install scikit-learn"
            )
        self.register_buffer("weight", torch.zeros(tasks, classes, size, dtype=torch.float64))
        self.register_buffer("bias", torch.zeros(tasks, classes, dtype=torch.float64))

    def learn(self, task: int, features: torch.Tensor, labels: torch.Tensor) -> None:
        from sklearn.svm import LinearSVC

        super().learn(task, features, labels)
        if task == 0 and self._classes == 1:
            return
        values, positions = self.training_set(task, features.double(), labels)
        # The solver visits images in a random order.
        fitted = LinearSVC(random_state=0).fit(normalise(values).cpu().numpy(), positions.cpu().numpy())
        weight, bias = torch.from_numpy(fitted.coef_), torch.from_numpy(fitted.intercept_)
        if len(weight) == 1:
            # Of two classes the solver separates one from the other once.
            weight, bias = torch.cat([-weight, weight]), torch.cat([-bias, bias])
        self.weight[: task + 1] = weight.view(task + 1, self._classes, -1).to(self.weight.device)
        self.bias[: task + 1] = bias.view(task + 1, self._classes).to(self.bias.device)

    def training_set(self, task: int, values: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Features [N, d] of the classes of all tasks up to `task`, and their positions task * k + class [N]."""
        features, positions = [values], [task * self._classes + labels]
        similarity = normalise(self.means[:task].flatten(0, 1)) @ normalise(self.means[task]).T
        for old, like in enumerate(similarity.argmax(dim=1).tolist()):
            shift = self.means[:task].flatten(0, 1)[old] - self.means[task, like]
            features.append(values[labels == like] + shift)
            positions.append(torch.full_like(labels[labels == like], old))
        return torch.cat(features), torch.cat(positions)

    def scores(self, task: int, features: torch.Tensor) -> torch.Tensor:
        return normalise(features) @ self.weight[task].T + self.bias[task]


class FrozenFeCAM(Classifier):
    """Minus FeCAM's squared Mahalanobis distance, on the square roots of the features, which must not be negative.

    Goswami et al., FeCAM, NeurIPS 2023 (Tukey, power 0.5); otherwise as `hypermask.fecam`.
    """

    def __init__(self, tasks: int, classes: int, size: int) -> None:
        super().__init__(tasks, classes, size)
        self.register_buffer("whitening", torch.zeros(tasks, classes, size, size, dtype=torch.float64))

    def learn(self, task: int, features: torch.Tensor, labels: torch.Tensor) -> None:
        found = prototypes(_tukey(features), labels, self._classes)
        self.means[task], self.whitening[task] = found.means, found.whitening

    def scores(self, task: int, features: torch.Tensor) -> torch.Tensor:
        return -Prototypes(self.means[task], self.whitening[task]).distances(normalise(_tukey(features)))


CLASSIFIERS: dict[str, type[Classifier]] = {"ncm": NearestClassMean, "fetril": FeTrIL, "fecam": FrozenFeCAM}


def _tukey(features: torch.Tensor) -> torch.Tensor:
    if (features < 0).any():
        raise HyperMaskError(
            "some features are negative, and Tukey's power has no value there; put them behind a ReLU."
        )
    return features.double() ** TUKEY
