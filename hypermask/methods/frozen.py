"""Classifiers on the features of a network that learned the first task's classes only: baselines of table 2.

The network is frozen, so each task only adds its training features, and the task of an image is never told. What each
classifier needs of earlier tasks it could have kept: class means, for FeCAM covariances too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from hypermask.errors import HyperMaskError
from hypermask.evaluation import BATCH
from hypermask.fecam import normalise, prototypes
from hypermask.inference import Classes, add, new_reading

# FeCAM's power of Tukey's ladder, for features of a network that has not seen their classes.
TUKEY = 0.5


@dataclass(frozen=True)
class Features:
    """Features [N, d] of the images of one task, and their absolute classes, int64 [N]."""

    values: torch.Tensor
    labels: torch.Tensor

    def __post_init__(self) -> None:
        if len(self.values) != len(self.labels) or not len(self.labels):
            raise HyperMaskError(
                f"there are {len(self.values)} rows of features and {len(self.labels)} labels; expected equally many, "
                "and at least one."
            )
        if not self.values.isfinite().all():
            raise HyperMaskError("some features are infinite or not a number; expected numbers, so train again.")

    def class_means(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The task's classes, ascending [C], and the mean of each one's features [C, d], float64."""
        classes = self.labels.unique()
        return classes, torch.stack([self.values[self.labels == label].double().mean(dim=0) for label in classes])


def nearest_class_mean(tasks: Sequence[Features], images: torch.Tensor) -> torch.Tensor:
    """The class of the nearest mean, Euclidean, features and means scaled to length 1.

    tasks: training features of the tasks so far.  images: features [M, d].  Returns absolute classes [M].
    """
    classes, means = (torch.cat(parts) for parts in zip(*(task.class_means() for task in tasks), strict=True))
    means = normalise(means)
    nearest = [torch.cdist(normalise(part), means).argmin(dim=1) for part in images.split(BATCH)]
    return classes[torch.cat(nearest)]


def fetril(tasks: Sequence[Features], images: torch.Tensor) -> torch.Tensor:
    """A linear support vector classifier on the last task's features and on translated ones for all earlier classes.

    Features of an earlier class are those of the last task's class with the most similar mean (cosine), shifted by the
    difference of the two means. All are scaled to length 1 for the classifier (scikit-learn's LinearSVC, its defaults).
    Petit et al., FeTrIL, WACV 2023.  Arguments and result are those of `nearest_class_mean`.
    """
    from sklearn.svm import LinearSVC

    *earlier, last = tasks
    classes, means = last.class_means()
    values, labels = [last.values.double()], [last.labels]
    for task in earlier:
        for old_class, old_mean in zip(*task.class_means(), strict=True):
            like = int((normalise(means) @ normalise(old_mean[None])[0]).argmax())
            shifted = last.values[last.labels == classes[like]].double() + (old_mean - means[like])
            values.append(shifted)
            labels.append(old_class.expand(len(shifted)))
    known = torch.cat(labels).cpu().numpy()
    if len(set(known.tolist())) == 1:
        return classes.expand(len(images)).clone()
    # The solver visits images in a random order.
    classifier = LinearSVC(random_state=0).fit(normalise(torch.cat(values)).cpu().numpy(), known)
    return torch.from_numpy(classifier.predict(normalise(images).cpu().numpy())).to(images.device)


def fecam(tasks: Sequence[Features], images: torch.Tensor) -> torch.Tensor:
    """FeCAM on the square roots of the features (Tukey, power 0.5), which must not be negative.

    Goswami et al., FeCAM, NeurIPS 2023; otherwise as `hypermask.fecam`.  Arguments and result are those of
    `nearest_class_mean`.
    """
    classes, labels = torch.cat([task.labels for task in tasks]).unique(return_inverse=True)
    known = prototypes(_tukey(torch.cat([task.values for task in tasks])), labels, len(classes))
    nearest = [known.distances(_tukey(part)).argmin(dim=1) for part in images.split(BATCH)]
    return classes[torch.cat(nearest)]


CLASSIFIERS: dict[str, Callable[[Sequence[Features], torch.Tensor], torch.Tensor]] = {
    "ncm": nearest_class_mean,
    "fetril": fetril,
    "fecam": fecam,
}


def evaluate(name: str, training: Sequence[Features], test: Sequence[Features]) -> dict[str, list]:
    """Acc_j of a classifier for j = 1..T, as one reading of `hypermask.inference.measure`.

    name: `ncm`, `fetril` or `fecam`.  training, test: the tasks' features; no class is in two tasks.
    """
    if name not in CLASSIFIERS:
        raise HyperMaskError(f"unknown classifier {name!r}; expected {', '.join(CLASSIFIERS)}.")
    classes = Classes([task.labels.unique().tolist() for task in training], training[0].labels.device)
    ascending, place = classes.absolute.sort()
    absent = sorted(set(torch.cat([task.labels for task in test]).tolist()) - set(ascending.tolist()))
    if absent:
        raise HyperMaskError(f"class {absent[0]} has test images and no training images; expected some of both.")
    reading = new_reading()
    for known in range(1, len(training) + 1):
        images = torch.cat([task.values for task in test[:known]])
        true = torch.cat([task.labels for task in test[:known]])
        predicted = CLASSIFIERS[name](training[:known], images)
        positions = (place[torch.searchsorted(ascending, labels.contiguous())] for labels in (predicted, true))
        add(reading, *positions, classes)
    return reading


def _tukey(features: torch.Tensor) -> torch.Tensor:
    if (features < 0).any():
        raise HyperMaskError(
            "some features are negative, and Tukey's power has no value there; put them behind a ReLU."
        )
    return features.double() ** TUKEY
