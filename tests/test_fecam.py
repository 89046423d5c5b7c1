import numpy as np
import pytest
import torch
from torch import nn

from hypermask import experiments, fecam, inference, methods
from hypermask.benchmarks import split_digits
from hypermask.errors import HyperMaskError
from hypermask.fecam import FeCAM, Prototypes, correlation, covariance, factorise, normalise, prototypes, shrink
from hypermask.methods import Method
from hypermask.model import HyperMask
from hypermask.targets import MLP


def double(values: list) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def by_hand(training: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Distances [B] to one class, written down once more from the paper, with an inverse."""
    training, features = training.astype(np.float64), features.astype(np.float64)
    size = training.shape[1]
    sigma = np.cov(training, rowvar=False)
    for _ in range(2):
        on = np.mean(np.diag(sigma))
        off = np.mean(sigma[~np.eye(size, dtype=bool)])
        sigma = sigma + on * np.eye(size) + off * (np.ones((size, size)) - np.eye(size))
    normalised = np.array(
        [[sigma[i, j] / (np.sqrt(sigma[i, i]) * np.sqrt(sigma[j, j])) for j in range(size)] for i in range(size)]
    )
    inverse = np.linalg.inv(normalised)
    mean = training.mean(axis=0)
    mean = mean / np.linalg.norm(mean)
    differences = [row / np.linalg.norm(row) - mean for row in features]
    return np.array([difference @ inverse @ difference for difference in differences])


# --- the steps, computed by hand ------------------------------------------------------------------


def test_covariance_is_unbiased_and_zero_for_one_image():
    torch.testing.assert_close(covariance(double([[1, 2], [3, 6]])), double([[2, 4], [4, 8]]))
    torch.testing.assert_close(covariance(double([[1, 2]])), double([[0, 0], [0, 0]]))


def test_shrinkage_adds_the_means_on_and_off_the_diagonal():
    once = shrink(double([[2, 1], [1, 4]]))
    torch.testing.assert_close(once, double([[5, 2], [2, 7]]))
    torch.testing.assert_close(shrink(once), double([[11, 4], [4, 13]]))
    torch.testing.assert_close(shrink(double([[3]])), double([[6]]))


def test_correlation_divides_by_both_deviations():
    torch.testing.assert_close(correlation(double([[4, 2], [2, 9]])), double([[1, 1 / 3], [1 / 3, 1]]))
    torch.testing.assert_close(correlation(double([[0, 0], [0, 9]])), double([[1, 0], [0, 1]]))


def test_distance_of_vectors_of_length_one():
    whitening = torch.linalg.cholesky(double([[1, 0.5], [0.5, 1]])).inverse()
    known = Prototypes(normalise(double([[3, 4], [0, 2]])), torch.stack([whitening, torch.eye(2, dtype=torch.float64)]))
    # (0, 1) - (0.6, 0.8) = (-0.6, 0.2); the inverse is [[1, -0.5], [-0.5, 1]] / 0.75.
    torch.testing.assert_close(
        known.distances(normalise(torch.tensor([[0.0, 5.0], [6.0, 8.0]]))), double([[0.52 / 0.75, 0], [0, 0.4]])
    )


def test_prototypes_equal_the_formulas_with_an_inverse():
    features, labels = random(60, 6, seed=1) + torch.arange(6), torch.arange(60) % 3
    images = random(11, 6, seed=2)
    known = prototypes(features, labels, 3)
    assert (known.means.dtype, known.whitening.dtype) == (torch.float64, torch.float64)
    expected = np.stack([by_hand(features[labels == label].numpy(), images.numpy()) for label in range(3)], axis=1)
    np.testing.assert_allclose(known.distances(normalise(images)).numpy(), expected, rtol=1e-9)


def test_the_nearest_class_is_that_of_whole_distances():
    # 300 features are three blocks, of 128, 128 and 44.
    labels = torch.arange(400) % 8
    training = random(400, 300, seed=9) + 2 * random(8, 300, seed=10)[labels]
    images = normalise(random(90, 300, seed=11) + 2 * random(8, 300, seed=10)[torch.arange(90) % 8])
    known = prototypes(training, labels, 8)
    distances = known.distances(images)
    values, nearest = known.nearest(images, torch.full((90,), torch.inf, dtype=torch.float64))
    torch.testing.assert_close(values, distances.amin(dim=1))
    assert torch.equal(nearest, distances.argmin(dim=1))
    assert len(nearest.unique()) == 8
    # Where something else is nearer already, no class is; where it is as near, the class still is.
    beyond = values.clone()
    beyond[::2] *= 0.999
    bounded, classes = known.nearest(images, beyond)
    assert bounded[::2].isinf().all()
    assert torch.equal(bounded[1::2], values[1::2])
    assert torch.equal(classes[1::2], nearest[1::2])


def test_far_classes_are_left_early(monkeypatch):
    monkeypatch.setattr(fecam, "BLOCK", 2)
    rows = []
    whole = Prototypes._part

    def counted(self, unit, label, start, stop):
        rows.append((label, start, len(unit)))
        return whole(self, unit, label, start, stop)

    monkeypatch.setattr(Prototypes, "_part", counted)
    identity = torch.eye(6, dtype=torch.float64)
    known = Prototypes(torch.stack([-identity[0], identity[0], identity[1]]), torch.stack([identity] * 3))
    values, nearest = known.nearest(identity[:2], torch.full((2,), torch.inf, dtype=torch.float64))
    assert (values.tolist(), nearest.tolist()) == ([0, 0], [1, 2])
    # Of three blocks all classes see the first; only the likeliest of each image, one image each, sees the others.
    assert rows == [(0, 0, 2), (1, 0, 2), (2, 0, 2), (1, 2, 1), (1, 4, 1), (2, 2, 1), (2, 4, 1)]


def test_of_classes_as_near_the_lowest_is_the_nearest(monkeypatch):
    identity = torch.eye(3, dtype=torch.float64)
    known = Prototypes(torch.stack([identity[2], identity[0], identity[0]]), torch.stack([identity] * 3))
    images, far = identity[[0, 0, 1]], torch.full((3,), torch.inf, dtype=torch.float64)
    for block in (128, 1):
        monkeypatch.setattr(fecam, "BLOCK", block)
        values, nearest = known.nearest(images, far)
        assert (values.tolist(), nearest.tolist()) == ([0, 0, 2], [1, 1, 0])


# --- degenerate classes ---------------------------------------------------------------------------


def identity_distance(mean: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    return (normalise(images) - normalise(mean[None])).square().sum(dim=1)


def test_one_image_and_constant_features_mean_the_euclidean_distance():
    images, image = random(9, 4, seed=3), random(1, 4, seed=4)
    for training in (image, image.expand(5, 4)):
        known = prototypes(training, torch.zeros(len(training), dtype=torch.int64), 1)
        torch.testing.assert_close(known.whitening[0], torch.eye(4, dtype=torch.float64))
        torch.testing.assert_close(known.distances(normalise(images))[:, 0], identity_distance(image[0], images))


def test_a_feature_without_variance_gets_the_mean_variance():
    training = random(30, 4, seed=5)
    training[:, 2] = 1.5
    images = random(7, 4, seed=6)
    distances = prototypes(training, torch.zeros(30, dtype=torch.int64), 1).distances(normalise(images))[:, 0]
    np.testing.assert_allclose(distances.numpy(), by_hand(training.numpy(), images.numpy()), rtol=1e-9)


def test_features_with_a_constant_sum_get_the_ridge():
    values = random(20, seed=7).double()
    training = torch.stack([values, 3 - values], dim=1)
    torch.testing.assert_close(correlation(shrink(shrink(covariance(training)))), double([[1, -1], [-1, 1]]))
    factor = factorise(double([[1, -1], [-1, 1]]))
    torch.testing.assert_close(factor @ factor.T, double([[1 + 1e-8, -1], [-1, 1 + 1e-8]]), rtol=0, atol=1e-14)
    images = torch.tensor([[1.0, 0.0], [0.0, 0.0], [2.0, 2.0]])
    assert prototypes(training, torch.zeros(20, dtype=torch.int64), 1).distances(normalise(images)).isfinite().all()


def test_an_image_or_a_class_without_features_has_a_distance():
    training = torch.zeros(4, 3)
    known = prototypes(training, torch.zeros(4, dtype=torch.int64), 1)
    torch.testing.assert_close(known.distances(normalise(torch.tensor([[0.0, 0, 0], [0, 2, 0]]))), double([[0], [1]]))


def test_a_single_feature_has_a_distance():
    known = prototypes(random(5, 1).abs(), torch.zeros(5, dtype=torch.int64), 1)
    torch.testing.assert_close(known.distances(normalise(torch.tensor([[2.0], [-3.0]]))), double([[0], [4]]))


def test_a_class_without_images_and_features_that_are_no_numbers_are_refused():
    with pytest.raises(HyperMaskError, match="class 2 of 2 has no training image; FeCAM needs at least one"):
        prototypes(random(3, 2), torch.zeros(3, dtype=torch.int64), 2)
    with pytest.raises(HyperMaskError, match="the training features are not all finite"):
        prototypes(torch.tensor([[1.0, torch.nan]]), torch.zeros(1, dtype=torch.int64), 1)


# --- the procedure --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    return split_digits(tasks=3)


@pytest.fixture(scope="module")
def untrained(digits) -> HyperMask:
    config = experiments.smoke("split_mnist/hypermask-t").config
    return methods.build(config.method, digits, seed=1)


@pytest.mark.parametrize("block", [128, 5])
def test_predictions_equal_a_loop_over_networks_and_classes(digits, untrained, block, monkeypatch):
    monkeypatch.setattr(fecam, "BLOCK", block)
    found: dict = {}
    inference.measure(found, "fecam", untrained, digits, 2, seed=1)
    with torch.no_grad():
        means = {}
        for task in range(3):
            train = digits.task(task).train
            features = untrained.features(digits.prepare(train.images, task), task).numpy()
            means |= {(task, label): features[train.labels.numpy() == label] for label in range(2)}
        confusion = np.zeros((3, 3), dtype=int)
        right = []
        for task in range(3):
            test = digits.task(task).test
            seen = [untrained.features(digits.prepare(test.images, task), i).numpy() for i in range(3)]
            best = {key: np.min([by_hand(own, features) for features in seen], axis=0) for key, own in means.items()}
            keys = sorted(best)
            nearest = [keys[k] for k in np.argmin([best[key] for key in keys], axis=0)]
            right += [key == (task, label) for key, label in zip(nearest, test.labels.tolist(), strict=True)]
            for predicted, _ in nearest:
                confusion[task, predicted] += 1
    reading = found["fecam"]["released-code"]
    assert reading["confusion"] == confusion.tolist()
    assert reading["class_accuracy"][-1] == pytest.approx(100 * np.mean(right))
    assert reading["task_accuracy"][-1] == pytest.approx(100 * np.trace(confusion) / len(right))


class Projections(Method):
    """Features of a task are projections of its own, so that a class may be nearest in any task's network."""

    def __init__(self, tasks: int) -> None:
        super().__init__()
        self.matrices = [random(6, 20, seed=task) for task in range(tasks)]

    def features(self, inputs, task):
        return inputs @ self.matrices[task]


def test_with_every_number_of_tasks_known_each_row_is_that_of_these_tasks_alone(monkeypatch):
    monkeypatch.setattr(fecam, "BLOCK", 5)
    tasks, images = 4, random(300, 6, seed=9)
    method, procedure = Projections(tasks), FeCAM(None)
    identity = torch.eye(20, dtype=torch.float64).expand(2, -1, -1)
    known = [Prototypes(normalise(random(2, 20, seed=20 + task)), identity) for task in range(tasks)]
    classes = inference.Classes([(2 * task, 2 * task + 1) for task in range(tasks)], torch.device("cpu"))
    procedure._prototypes = known
    rows = inference.predict(procedure, method, classes, [images], 300, every=True)
    for count in range(1, tasks + 1):
        procedure._prototypes = known[:count]
        alone = inference.predict(procedure, method, classes.of_first(count), [images], 300)
        assert torch.equal(rows[count - 1], alone[0])


def test_features_that_are_no_numbers_are_refused(digits, untrained):
    procedure = FeCAM(digits)
    procedure.learn(untrained, 1)
    inputs = torch.full((2, 64), torch.nan)
    with pytest.raises(HyperMaskError, match="the network of task 1 gives features that are not finite"):
        next(procedure.candidates([untrained.task_network(0)], inputs, torch.zeros(1, 2)))


# --- features of a method -------------------------------------------------------------------------


class Backwards(nn.Module):
    """The output layer is registered first and called last."""

    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Linear(5, 2)
        self.hidden = nn.Linear(64, 5)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.output(self.hidden(inputs).sigmoid())


@pytest.mark.parametrize(
    ("target", "last", "size"),
    [
        (MLP(64, (7, 6), 2), "output", 6),
        (nn.Sequential(nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 2)), "2", 8),
        (Backwards(), "output", 5),
        (nn.Linear(64, 2), "", 64),
    ],
)
def test_features_are_what_the_last_linear_layer_is_given(target, last, size):
    model = HyperMask(target, tasks=2, embedding_size=4, hypernetwork_hidden=(5,), p=20.0)
    inputs = random(9, 64, seed=8)
    with torch.no_grad():
        features = model.features(inputs, 1)
        assert features.shape == (9, size)
        layer, masks = target.get_submodule(last), model.masks(1) | {model.output_bias: 1.0}
        weight, bias = (f"{last}.{kind}".lstrip(".") for kind in ("weight", "bias"))
        expected = model.logits(inputs, 1)
        torch.testing.assert_close(features @ (layer.weight * masks[weight]).T + layer.bias * masks[bias], expected)
        network = model.task_network(1)
        assert torch.equal(network.features(inputs), features)
        assert torch.equal(network.logits(inputs), expected)
    assert all(not module._forward_pre_hooks for module in target.modules())


def test_a_target_without_linear_layer_and_a_method_without_features_are_told():
    convolutional = nn.Sequential(nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    model = HyperMask(convolutional, tasks=1, embedding_size=4, hypernetwork_hidden=(5,))
    with pytest.raises(HyperMaskError, match="Sequential calls no linear layer, whose input would be its features"):
        model.features(torch.zeros(1, 1, 8, 8), 0)
    with pytest.raises(HyperMaskError, match="Method gives no features, which FeCAM compares"):
        Method().features(torch.zeros(1, 1), 0)
