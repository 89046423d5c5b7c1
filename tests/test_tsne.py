import numpy as np
import pytest
from payloads import payload

from hypermask import files, paths, records, tsne
from hypermask.errors import HyperMaskError
from hypermask.results import gather
from hypermask.tsne import Settings

NAME = "split_mnist/hypermask-t"
PER_TASK = 24
PLACES = [(-9.0, 0.0), (9.0, 0.0)]


def logits(seed: int = 0) -> dict[str, np.ndarray]:
    """With masks the two digits of every task lie apart, the same for all tasks; without, only those of task 1 do."""
    draw = np.random.default_rng(seed)
    labels = 2 * np.arange(5)[:, None] + np.arange(PER_TASK) % 2
    places = np.array(PLACES)[labels % 2]
    masked = places + draw.normal(size=places.shape)
    unmasked = np.where(np.arange(5)[:, None, None] == 0, places, 0.0) + draw.normal(size=places.shape)
    return {"masked": masked.astype(np.float32), "unmasked": unmasked.astype(np.float32), "labels": labels}


def write(root, seed: int = 1, overwrite: bool = False, **changes) -> records.Record:
    return records.read(records.write(payload(NAME, seed, **changes), logits(seed), root, overwrite))


def test_purity_by_hand():
    points = np.array([[0.0], [1.0], [2.5], [10.0], [11.5]])
    groups = np.array([0, 0, 1, 1, 1])
    assert tsne.purity(points, groups, 1).tolist() == [100.0, 100.0, 0.0, 100.0, 100.0]
    assert tsne.purity(points, groups, 2).tolist() == [50.0, 50.0, 0.0, 100.0, 100.0]
    assert tsne.purity(points, groups, 4).tolist() == [25.0, 25.0, 50.0, 50.0, 50.0]
    assert tsne.chance(groups) == 100 * (2 * 1 + 3 * 2) / (5 * 4)


def test_points_in_one_place_do_not_count_themselves():
    points, groups = np.zeros((6, 2)), np.array([0, 1, 2, 3, 4, 5])
    assert tsne.purity(points, groups, 3).tolist() == [0.0] * 6


def test_purity_needs_enough_points():
    with pytest.raises(HyperMaskError, match="5 neighbours of 5 points; expected 1 to 4"):
        tsne.purity(np.zeros((5, 2)), np.zeros(5), 5)


def test_a_sample_has_the_first_points_of_every_task(root):
    record = write(paths.records())
    points = tsne.sample(record, 50)
    assert points.tasks.tolist() == [task for task in range(5) for _ in range(10)]
    assert points.digits.tolist() == [2 * task + n % 2 for task in range(5) for n in range(10)]
    assert points.units.tolist() == [0, 1] * 25
    assert np.array_equal(points.logits["unmasked"][10:20], record.arrays()["unmasked"][1, :10])
    assert len(tsne.sample(record, 10_000).tasks) == 5 * PER_TASK
    assert list(points.kinds()) == ["digit", "task", "output unit"]


def test_permuted_mnists_classes_are_digits_of_tasks(root):
    arrays = {name: np.zeros((10, 20, 10), np.float32) for name in ("masked", "unmasked")}
    labels = 10 * np.arange(10)[:, None] + np.arange(20) % 10
    made = payload("permuted_mnist_10/hypermask-t")
    record = records.read(records.write(made, arrays | {"labels": labels}, paths.records()))
    points = tsne.sample(record, 2000)
    assert points.digits.tolist() == list(range(10)) * 20
    assert list(points.kinds()) == ["digit", "task"]


def test_a_run_without_logits_is_refused(root):
    record = records.read(records.write(payload(NAME), None, paths.records()))
    with pytest.raises(HyperMaskError, match=f"{NAME} seed 1 has no logits with and without masks; t-SNE needs both"):
        tsne.sample(record, 100)


def test_group_purity_tells_where_masks_matter(root):
    record = write(paths.records())
    assert tsne.group_purity(record, "masked", "output unit", over="digit").tolist() == [100.0] * 10
    first, *others = tsne.group_purity(record, "unmasked", "output unit", over="task")
    assert first == 100.0
    assert max(others) < 75
    first, *others = tsne.group_purity(record, "unmasked", "task", over="task")
    assert first == 100.0
    assert max(others) < 50


def test_embedding_keeps_neighbourhoods_and_repeats():
    draw = np.random.default_rng(1)
    groups = np.repeat(np.arange(3), 50)
    blobs = 20 * np.eye(4)[groups] + draw.normal(size=(150, 4))
    settings = Settings(perplexity=15, seed=3)
    positions = tsne.embed(blobs, settings)
    assert (positions.shape, positions.dtype) == ((150, 2), np.float32)
    assert tsne.purity(positions, groups).min() == 100.0
    assert np.array_equal(positions, tsne.embed(blobs, settings))
    assert not np.array_equal(positions, tsne.embed(blobs, Settings(perplexity=15, seed=4)))


def test_too_few_points_for_the_perplexity():
    with pytest.raises(HyperMaskError, match="perplexity 30 needs more than 90 points, and there are 60; lower the"):
        tsne.embed(np.zeros((60, 2)), Settings())


def test_the_recorded_embedding_is_read_where_it_is_of_this_record_and_these_settings(root, monkeypatch):
    record = write(paths.records())
    (path,) = tsne.refresh("fig14_split_mnist_tsne")
    assert path == root / f"records/tsne/{NAME}" / record.config_hash[:12] / "seed1.npz"
    recorded = tsne.embedding(record)
    assert recorded.run == f"{NAME}, seed 1"

    computed = []
    monkeypatch.setattr(tsne, "embed", lambda logits, settings: computed.append(settings) or np.zeros((len(logits), 2)))
    again = tsne.embedding(record)
    assert computed == []
    assert all(np.array_equal(again.positions[name], recorded.positions[name]) for name in tsne.NETWORKS)
    tsne.embedding(record, Settings(seed=2))
    assert computed == [Settings(seed=2)] * 2

    changed = write(paths.records(), overwrite=True, created="2027-01-02T03:04:05+00:00")
    tsne.embedding(changed)
    assert computed[2:] == [Settings()] * 2


def test_refresh_records_what_is_missing_or_of_another_record(root):
    notebook = "fig14_split_mnist_tsne"
    assert tsne.refresh(notebook) == []
    write(paths.records())
    write(paths.records(), seed=2)
    (path,) = tsne.refresh(notebook)
    before = files.sha256(path)
    assert tsne.refresh(notebook) == []
    assert tsne.refresh("fig12_permuted_mnist_tsne_classes") == []
    assert tsne.refresh("quickstart") == []
    write(paths.records(), overwrite=True, created="2027-01-02T03:04:05+00:00")
    assert tsne.refresh(notebook) == [path]
    assert files.sha256(path) != before


def test_a_broken_recorded_embedding_is_named(root):
    record = write(paths.records())
    (path,) = tsne.refresh("fig14_split_mnist_tsne")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(HyperMaskError, match=r"^records/tsne/.*/seed1\.npz is not a recorded embedding \(.*delete it"):
        tsne.embedding(record)


def test_the_first_needed_seed_is_shown_and_the_readers_own_run_apart(root):
    write(paths.records(), seed=2)
    assert tsne.shown(gather("fig14")[NAME]) == ([], [])
    write(paths.records())
    write(paths.runs(), seed=7)
    runs = gather("fig14", own_runs=True)[NAME]
    small = Settings(perplexity=5)
    assert [shown.run for shown in tsne.embeddings(runs, small)] == [
        f"{NAME}, seed 1",
        f"your own run of {NAME}, seed 7",
    ]


def test_every_committed_embedding_is_of_its_record_and_keeps_its_neighbourhoods(project_root, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(project_root))
    found = sorted(paths.records().glob("tsne/*/*/*/seed*.npz"))
    assert found
    for path in found:
        record = records.read(paths.records() / path.relative_to(paths.records() / "tsne").with_suffix(".json"))
        points = tsne.sample(record, Settings().points)
        recorded = tsne._recorded(record, Settings())
        assert recorded is not None
        for network, positions in recorded.items():
            for groups in points.kinds().values():
                among_logits = tsne.purity(points.logits[network], groups).mean()
                assert tsne.purity(positions, groups).mean() == pytest.approx(among_logits, abs=5)
