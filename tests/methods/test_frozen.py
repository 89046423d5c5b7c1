import numpy as np
import pytest
import torch

from hypermask.errors import HyperMaskError
from hypermask.fecam import prototypes
from hypermask.methods.frozen import CLASSIFIERS, Features, evaluate, fecam, fetril, nearest_class_mean

DIRECTIONS = torch.eye(6)


def blobs(*classes: int, per_class: int = 20, spread: float = 0.05, seed: int = 0) -> Features:
    """Non-negative features around one axis for each class."""
    draw = torch.Generator().manual_seed(seed + classes[0])
    labels = torch.tensor(classes).repeat_interleave(per_class)
    noise = torch.rand(len(labels), 6, generator=draw) * spread
    return Features(3 * DIRECTIONS[labels] + noise, labels)


def test_nearest_class_mean_by_hand():
    first = Features(torch.tensor([[4.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), torch.tensor([7, 7, 2]))
    second = Features(torch.tensor([[3.0, 3.0]]), torch.tensor([5]))
    images = torch.tensor([[9.0, 0.1], [0.1, 0.9], [5.0, 4.0], [0.0, 0.0]])
    assert nearest_class_mean([first], images).tolist() == [7, 2, 7, 2]
    # Without a direction, an image is as far from every mean: the lowest class of the first task.
    assert nearest_class_mean([first, second], images).tolist() == [7, 2, 5, 2]


def test_fetril_moves_the_most_similar_new_class_to_an_old_mean(monkeypatch):
    import sklearn.svm

    seen = {}

    class Kept(sklearn.svm.LinearSVC):
        def fit(self, values, labels):
            seen.update(values=values, labels=labels)
            return super().fit(values, labels)

    monkeypatch.setattr(sklearn.svm, "LinearSVC", Kept)
    old = Features(torch.tensor([[8.0, 0.0], [6.0, 0.0]]), torch.tensor([3, 3]))
    new = Features(torch.tensor([[2.0, 1.0], [4.0, 1.0], [0.0, 5.0]]), torch.tensor([0, 0, 1]))
    fetril([old, new], torch.tensor([[1.0, 0.0]]))
    # Class 0 has the mean (3, 1), nearer in direction to the old mean (7, 0) than (0, 5): shifted by (4, -1).
    expected = np.array([[2.0, 1.0], [4.0, 1.0], [0.0, 5.0], [6.0, 0.0], [8.0, 0.0]])
    np.testing.assert_allclose(seen["values"], expected / np.linalg.norm(expected, axis=1, keepdims=True))
    assert seen["labels"].tolist() == [0, 0, 1, 3, 3]


def test_fecam_takes_square_roots():
    task = blobs(0, 1, spread=2.0)
    images = blobs(0, 1, spread=2.0, seed=5).values
    known = prototypes(task.values.sqrt(), task.labels, 2)
    assert torch.equal(fecam([task], images), known.distances(images.sqrt()).argmin(dim=1))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_separate_classes_are_told_apart(name):
    training, test = ([blobs(4, 0, seed=seed), blobs(1, 5, seed=seed), blobs(2, seed=seed)] for seed in (0, 50))
    assert evaluate(name, training, test) == {
        "class_accuracy": [100.0] * 3,
        "task_accuracy": [100.0] * 3,
        "confusion": [[40, 0, 0], [0, 40, 0], [0, 0, 20]],
    }


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_same_again(name):
    training, test = ([blobs(0, 1, spread=9.0, seed=seed), blobs(2, 3, spread=9.0, seed=seed)] for seed in (0, 50))
    first = evaluate(name, training, test)
    assert first == evaluate(name, training, test)
    assert 25 < first["class_accuracy"][-1] < 100


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_one_class_and_one_image_have_a_result(name):
    task = Features(torch.tensor([[1.0, 2.0]]), torch.tensor([4]))
    assert CLASSIFIERS[name]([task], torch.tensor([[0.0, 0.0], [1.0, 0.0]])).tolist() == [4, 4]


def test_bad_features_are_refused():
    with pytest.raises(HyperMaskError, match="some features are infinite or not a number"):
        Features(torch.tensor([[torch.inf]]), torch.tensor([0]))
    with pytest.raises(HyperMaskError, match="there are 0 rows of features and 0 labels"):
        Features(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))
    task = Features(torch.tensor([[-1.0]]), torch.tensor([0]))
    with pytest.raises(HyperMaskError, match="some features are negative"):
        fecam([task], torch.tensor([[1.0]]))
    with pytest.raises(HyperMaskError, match="unknown classifier 'svm'; expected ncm, fetril, fecam"):
        evaluate("svm", [task], [task])
    with pytest.raises(HyperMaskError, match="class 9 has test images and no training images"):
        evaluate("ncm", [task], [Features(torch.ones(1, 1), torch.tensor([9]))])
