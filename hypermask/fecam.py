"""HyperMask+FeCAM (Algorithm 3): the class whose prototype is closest to the features, whichever task it belongs to.

A prototype is the mean and the covariance of a class's training features, made in the network of its own task. The
covariance is shrunk twice and normalised to a correlation matrix, the features are not transformed (no Tukey), and the
distance is Mahalanobis' between features and mean, both of length 1. Everything from the covariance on is float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from hypermask.benchmarks.base import Benchmark
from hypermask.errors import HyperMaskError
from hypermask.evaluation import in_batches
from hypermask.methods.base import Method, Network

# A normalised covariance whose Cholesky factor has a squared pivot below this is singular up to rounding: its features
# have a constant sum, the one case that shrinkage does not mend.
RIDGE = 1e-8


@dataclass(frozen=True)
class Prototypes:
    """Some classes as Gaussians of their features, float64.

    means: [C, d], each of length 1.  whitening: [C, d, d], inverses of the normalised covariances' lower Cholesky
    factors, so that a batch costs a product instead of a triangular solve for each class.
    """

    means: torch.Tensor
    whitening: torch.Tensor

    def distances(self, features: torch.Tensor) -> torch.Tensor:
        """Squared Mahalanobis distance d_M of features [B, d] to every class: [B, C]."""
        unit = normalise(features)
        distances = unit.new_empty(len(unit), len(self.means))
        for label, (mean, whitening) in enumerate(zip(self.means, self.whitening, strict=True)):
            distances[:, label] = ((unit - mean) @ whitening.T).square_().sum(dim=1)
        return distances


def prototypes(features: torch.Tensor, labels: torch.Tensor, classes: int) -> Prototypes:
    """The prototypes of `classes` classes from training features [N, d] and labels [N] in 0..classes-1.

    A class of one image, or of constant features, has the identity for its normalised covariance. A class without
    images, or features that are not finite, are an error.
    """
    if not features.isfinite().all():
        raise HyperMaskError("the training features are not all finite; expected numbers, so train the network again.")
    size = features.shape[1]
    means = features.new_empty(classes, size, dtype=torch.float64)
    whitening = features.new_empty(classes, size, size, dtype=torch.float64)
    identity = torch.eye(size, dtype=torch.float64, device=features.device)
    for label in range(classes):
        own = features[labels == label].double()
        if not len(own):
            raise HyperMaskError(
                f"class {label + 1} of {classes} has no training image; FeCAM needs at least one of every class."
            )
        means[label] = own.mean(dim=0)
        factor = factorise(correlation(shrink(shrink(covariance(own)))))
        whitening[label] = torch.linalg.solve_triangular(factor, identity, upper=False)
    return Prototypes(normalise(means), whitening)


def normalise(vectors: torch.Tensor) -> torch.Tensor:
    """Rows [N, d] scaled to length 1, float64; a row of zeros stays one."""
    return F.normalize(vectors.double(), dim=1, eps=torch.finfo(torch.float64).tiny)


def covariance(features: torch.Tensor) -> torch.Tensor:
    """Unbiased covariance matrix [d, d] of features [n, d]; zeros for a single row."""
    centred = features - features.mean(dim=0)
    return centred.T @ centred / max(len(features) - 1, 1)


def shrink(matrix: torch.Tensor) -> torch.Tensor:
    """Sigma_s = Sigma + D_1 I + D_2 (1 - I), D_1 and D_2 the means of the elements on and off the diagonal."""
    size = len(matrix)
    trace = matrix.trace()
    on = trace / size
    off = (matrix.sum() - trace) / max(size * (size - 1), 1)
    return matrix + off + (on - off) * torch.eye(size, dtype=matrix.dtype, device=matrix.device)


def correlation(matrix: torch.Tensor) -> torch.Tensor:
    """Sigma[i, j] / sqrt(Sigma[i, i] Sigma[j, j]); a feature without variance is uncorrelated with every other."""
    deviations = matrix.diagonal().sqrt()
    scale = torch.where(deviations > 0, 1 / deviations, 0.0)
    normalised = matrix * scale * scale[:, None]
    normalised.diagonal().fill_(1.0)
    return normalised


def factorise(matrix: torch.Tensor) -> torch.Tensor:
    """Lower Cholesky factor [d, d] of a correlation matrix, or of the matrix + 1e-8 I if that is singular."""
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if failed or factor.diagonal().square().min() < RIDGE:
        return torch.linalg.cholesky(matrix + RIDGE * torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device))
    return factor


class FeCAM:
    """Algorithm 3 as a procedure of `hypermask.inference`; the candidates of one network are the classes of all tasks.

    Training images are those of each task's training part (without its validation part), not augmented. As in the
    algorithm, all prototypes are made anew with the networks as they are when `learn` is called.
    """

    def __init__(self, benchmark: Benchmark) -> None:
        self._benchmark = benchmark
        self._prototypes: list[Prototypes] = []

    def learn(self, method: Method, known: int) -> None:
        """Make the prototypes of the first `known` tasks."""
        self._prototypes.clear()
        for index in range(known):
            task, network = self._benchmark.task(index), method.network(index)
            features = torch.cat(
                [network.features(inputs) for inputs in in_batches(self._benchmark, index, task.train)]
            )
            self._prototypes.append(prototypes(features, task.train.labels, len(task.classes)))

    def candidates(
        self, network: Network, inputs: torch.Tensor, task: int, known: int
    ) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
        """For each of the first `known` tasks the smallest distance [B] and its local label [B], the lowest of ties."""
        features = network.features(inputs)
        if not features.isfinite().all():
            raise HyperMaskError(
                f"the network of task {task + 1} gives features that are not finite; expected numbers, so train again."
            )
        for candidate, task_prototypes in enumerate(self._prototypes[:known]):
            distances = task_prototypes.distances(features)
            labels = distances.argmin(dim=1)
            yield candidate, distances.gather(1, labels[:, None])[:, 0], labels
