import numpy as np
import pytest
import torch

from hypermask import experiments, inference
from hypermask.benchmarks import made_shapes
from hypermask.errors import HyperMaskError
from hypermask.fecam import normalise, prototypes
from hypermask.methods.frozen import CLASSIFIERS, FeTrIL, FrozenFeCAM, FrozenNetwork, NearestClassMean
from hypermask.training import run_experiment

CLASSES = ("ncm", "fetril", "fecam")


def blobs(task: int, classes: int = 2, per_class: int = 20, spread: float = 0.05, seed: int = 0):
    """Non-negative features around one axis for each class of a task, and its labels 0..k-1."""
    draw = torch.Generator().manual_seed(seed + task)
    labels = torch.arange(classes).repeat_interleave(per_class)
    noise = torch.rand(len(labels), 6, generator=draw) * spread
    return 3 * torch.eye(6)[task * classes + labels] + noise, labels


def best(classifier, tasks: int, features: torch.Tensor) -> list[int]:
    """Position, counted through all tasks, of the highest score."""
    return torch.cat([classifier.scores(task, features) for task in range(tasks)], dim=1).argmax(dim=1).tolist()


# -- classifiers --------------------------------------------------------------------------------------------


def test_nearest_class_mean_by_hand():
    classifier = NearestClassMean(tasks=2, classes=2, size=2)
    classifier.learn(0, torch.tensor([[4.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), torch.tensor([1, 1, 0]))
    images = torch.tensor([[9.0, 0.1], [0.1, 0.9], [5.0, 4.0]])
    assert best(classifier, 1, images) == [1, 0, 1]
    classifier.learn(1, torch.tensor([[3.0, 3.0], [-1.0, 0.0]]), torch.tensor([0, 1]))
    assert best(classifier, 2, images) == [1, 0, 2]
    # Between unit vectors: |(1, 0) - (0, 1)| and |(1, 0) - (1, 0)|.
    scores = classifier.scores(0, torch.tensor([[7.0, 0.0]]))
    torch.testing.assert_close(scores, torch.tensor([[-(2.0**0.5), 0.0]], dtype=torch.float64))


def test_fetril_moves_the_most_similar_new_class_to_an_old_mean():
    classifier = FeTrIL(tasks=2, classes=2, size=2)
    classifier.learn(0, torch.tensor([[8.0, 0.0], [6.0, 0.0], [0.0, 9.0]]), torch.tensor([0, 0, 1]))
    new = torch.tensor([[2.0, 1.0], [4.0, 1.0], [0.0, 5.0]], dtype=torch.float64)
    labels = torch.tensor([0, 0, 1])
    classifier.learn(1, new, labels)
    values, positions = classifier.training_set(1, new, labels)
    # New class 0 has the mean (3, 1), nearest in direction to the old mean (7, 0): shifted by (4, -1). New class 1 has
    # (0, 5), nearest to the old (0, 9): shifted by (0, 4).
    expected = torch.tensor([[2.0, 1.0], [4.0, 1.0], [0.0, 5.0], [6.0, 0.0], [8.0, 0.0], [0.0, 9.0]])
    torch.testing.assert_close(values, expected.double())
    assert positions.tolist() == [2, 2, 3, 0, 0, 1]


def test_fetrils_scores_are_those_of_scikit_learns_classifier():
    from sklearn.svm import LinearSVC

    classifier = FeTrIL(tasks=2, classes=2, size=6)
    classifier.learn(0, *blobs(0, spread=3.0))
    images = blobs(1, spread=3.0, seed=9)[0]
    unit = torch.nn.functional.normalize(blobs(0, spread=3.0)[0].double(), dim=1).numpy()
    fitted = LinearSVC(random_state=0).fit(unit, blobs(0)[1].numpy())
    scores = classifier.scores(0, images)
    known = fitted.decision_function(torch.nn.functional.normalize(images.double(), dim=1).numpy())
    np.testing.assert_allclose(scores[:, 1], known, atol=1e-9)
    np.testing.assert_allclose(scores[:, 0], -known, atol=1e-9)


def test_fecam_takes_square_roots():
    classifier = FrozenFeCAM(tasks=1, classes=2, size=6)
    features, labels = blobs(0, spread=2.0)
    classifier.learn(0, features, labels)
    images = blobs(0, spread=2.0, seed=5)[0]
    known = prototypes(features.double().sqrt(), labels, 2)
    torch.testing.assert_close(classifier.scores(0, images), -known.distances(normalise(images.double().sqrt())))


@pytest.mark.parametrize("name", CLASSES)
def test_separate_classes_are_told_apart(name):
    classifier = CLASSIFIERS[name](tasks=3, classes=2, size=6)
    for task in range(3):
        classifier.learn(task, *blobs(task))
    images = torch.cat([blobs(task, seed=50)[0] for task in range(3)])
    assert best(classifier, 3, images) == [label for label in range(6) for _ in range(20)]


@pytest.mark.parametrize("name", CLASSES)
def test_one_image_of_each_class_has_finite_scores(name):
    classifier = CLASSIFIERS[name](tasks=1, classes=2, size=2)
    classifier.learn(0, torch.tensor([[1.0, 2.0], [2.0, 0.0]]), torch.tensor([0, 1]))
    assert classifier.scores(0, torch.tensor([[0.0, 0.0], [1.0, 0.0]])).isfinite().all()


@pytest.mark.parametrize("name", CLASSES)
def test_bad_features_are_refused(name):
    classifier = CLASSIFIERS[name](tasks=1, classes=2, size=1)
    for bad in (torch.inf, torch.nan):
        with pytest.raises(HyperMaskError, match=r"are infinite or not a number|are not all finite"):
            classifier.learn(0, torch.tensor([[bad], [1.0]]), torch.tensor([0, 1]))
    with pytest.raises(HyperMaskError, match="class 2 of 2 has no training image"):
        classifier.learn(0, torch.tensor([[1.0]]), torch.tensor([0]))


def test_fecam_refuses_negative_features():
    classifier = FrozenFeCAM(tasks=1, classes=2, size=1)
    with pytest.raises(HyperMaskError, match="some features are negative"):
        classifier.learn(0, torch.tensor([[-1.0], [1.0]]), torch.tensor([0, 1]))


# -- the method ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=CLASSES)
def record(request, tmp_path_factory):
    experiment = experiments.smoke(f"split_cifar100_5x20/{request.param}")
    return run_experiment(experiment, 1, root=tmp_path_factory.mktemp("runs"), device="cpu")


def test_a_run_tells_the_classes_apart_without_their_task(record):
    name = record.experiment.split("/")[1]
    found = record.payload["inference"]
    assert list(found) == [name]
    for reading in inference.READINGS:
        accuracies = found[name][reading]["class_accuracy"]
        assert len(accuracies) == 4
        # Eight classes; guessing gives 12.5 %. With two classes known, the task is no question.
        assert accuracies[-1] > 20
        assert accuracies[0] == pytest.approx(
            record.accuracy[0, 0] if reading == "after-task" else record.accuracy[3, 0]
        )
    # Nothing depends on how images are put into batches.
    assert found[name]["shuffled"] == found[name]["released-code"]
    if name != "fetril":
        assert found[name]["after-task"] == found[name]["released-code"]


def test_only_the_first_task_trains(record):
    curves = record.payload["validation"]
    assert len(curves[0]["iteration"]) == 4
    assert [curve["iteration"] for curve in curves[1:]] == [[], [], []]
    assert record.payload["engine"] == "eager"


def test_the_network_is_frozen_after_the_first_task():
    benchmark = made_shapes(tasks=2)
    settings = experiments.smoke("split_cifar100_5x20/ncm").config.method
    method = FrozenNetwork(settings, tasks=2, input_shape=benchmark.input_shape, classes=2, seed=1)
    method.begin_task(0)
    assert all(parameter.requires_grad for parameter in method.target.parameters())
    method.begin_task(1)
    assert not any(parameter.requires_grad for parameter in method.parameters())
    with pytest.raises(HyperMaskError, match="task 1 is not learned yet"):
        method.logits(torch.zeros(2, *benchmark.input_shape), 1)


def test_a_resumed_run_is_the_uninterrupted_one(record, tmp_path):
    experiment = experiments.smoke(record.experiment)

    def stop(task):
        if task == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, 1, root=tmp_path, device="cpu", after_task=stop)
    again = run_experiment(experiment, 1, root=tmp_path, device="cpu")
    assert again.payload["inference"] == record.payload["inference"]
    assert np.array_equal(again.accuracy, record.accuracy, equal_nan=True)
