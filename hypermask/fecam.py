"""HyperMask+FeCAM (Algorithm 3): the class whose prototype is closest to the features, whichever task it belongs to.

A prototype is the mean and the covariance of a class's training features, made in the network of its own task. The
covariance is shrunk twice and normalised to a correlation matrix, the features are not transformed (no Tukey), and the
distance is Mahalanobis' between features and mean, both of length 1. Everything from the covariance on is float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import torch
import torch.nn.functional as F

from hypermask.benchmarks.base import Benchmark
from hypermask.errors import HyperMaskError
from hypermask.evaluation import in_batches
from hypermask.methods.base import Method, Network

# A normalised covariance whose Cholesky factor has a squared pivot below this is singular up to rounding: its features
# have a constant sum, the one case that shrinkage does not mend.
RIDGE = 1e-8

# Features by which a distance grows on a CPU until its class is too far to matter. A GPU forms whole distances: there
# the small steps would take longer than what they save.
BLOCK = 128


@dataclass(frozen=True)
class Prototypes:
    """Some classes as Gaussians of their features, float64.

    means: [C, d], each of length 1.  whitening: [C, d, d], inverses of the normalised covariances' lower Cholesky
    factors, so that a batch costs a product instead of a triangular solve for each class.
    """

    means: torch.Tensor
    whitening: torch.Tensor

    def distances(self, unit: torch.Tensor) -> torch.Tensor:
        """Squared Mahalanobis distance d_M of features [B, d] of length 1, float64, to every class: [B, C]."""
        return self._parts(unit, 0, unit.shape[1])

    def nearest(self, unit: torch.Tensor, beyond: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Smallest d_M [B] of features [B, d] of length 1, float64, to a class, and that class [B], the lowest of ties.

        beyond: [B], float64; a smallest distance that exceeds it may come back as infinity, with any number for class.
        A distance is a sum of squares of which the first k need the first k features alone, so a class can be left
        as soon as its sum exceeds `beyond` or another class's distance; the others' are complete.
        """
        size, classes = unit.shape[1], len(self.means)
        block = BLOCK if unit.device.type == "cpu" else size
        ends = [*range(block, size, block), size]
        sums = self._parts(unit, 0, ends[0])
        likely = sums.argmin(dim=1)
        if len(ends) == 1:
            return sums.gather(1, likely[:, None])[:, 0], likely
        best, labels = beyond.clone(), torch.full_like(likely, classes)
        # The likeliest class first: its whole distance lets most of the others be left early.
        for first in (True, False):
            for label in range(classes):
                rows = (((likely == label) == first) & (sums[:, label] <= best)).nonzero().squeeze(1)
                distances = sums[rows, label]
                for start, stop in pairwise(ends):
                    if not len(rows):
                        break
                    distances = distances + self._part(unit[rows], label, start, stop)
                    near = distances <= best[rows]
                    rows, distances = rows[near], distances[near]
                nearer = (distances < best[rows]) | (label < labels[rows])
                best[rows[nearer]], labels[rows[nearer]] = distances[nearer], label
        return torch.where(labels < classes, best, torch.inf), labels

    def _parts(self, unit: torch.Tensor, start: int, stop: int) -> torch.Tensor:
        """`_part` of every class: [B, C]."""
        return torch.stack([self._part(unit, label, start, stop) for label in range(len(self.means))], dim=1)

    def _part(self, unit: torch.Tensor, label: int, start: int, stop: int) -> torch.Tensor:
        """What the whitened features start..stop-1 of vectors [B, d] of length 1 add to their distance to a class."""
        difference = unit[:, :stop] - self.means[label, :stop]
        return (difference @ self.whitening[label, start:stop, :stop].T).square_().sum(dim=1)


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
            task, network = self._benchmark.task(index), method.task_network(index)
            features = torch.cat(
                [network.features(inputs) for inputs in in_batches(self._benchmark, index, task.train)]
            )
            self._prototypes.append(prototypes(features, task.train.labels, len(task.classes)))

    def candidates(
        self, networks: Sequence[Network], inputs: torch.Tensor, best: torch.Tensor
    ) -> Iterator[tuple[int, int, torch.Tensor, torch.Tensor]]:
        """For each network and each known task the smallest distance [B] and its local label [B], the lowest of ties.

        Every network's own task comes first: an image is usually closest to a class of its own task in its own network,
        and what is farther is soon left.
        """
        features = [network.features(inputs) for network in networks]
        for task, values in enumerate(features):
            if not values.isfinite().all():
                raise HyperMaskError(
                    f"the network of task {task + 1} gives features that are not finite; expected numbers, so train "
                    "again."
                )
        unit = [normalise(values) for values in features]
        pairs = product(range(len(networks)), repeat=2)
        for network, task in sorted(pairs, key=lambda pair: pair[0] != pair[1]):
            yield network, task, *self._prototypes[task].nearest(unit[network], best[max(network, task)])
