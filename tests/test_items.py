import pytest
from payloads import payload

from hypermask import experiments, items, records
from hypermask.errors import HyperMaskError


def test_fifteen_figures_and_twelve_tables_in_the_papers_order():
    expected = [f"fig{n:02}" for n in range(1, 16)] + [f"table{n:02}" for n in range(1, 13)]
    assert [item.id for item in items.ITEMS] == expected
    assert len({name for item in items.ITEMS for name in item.files}) == 27 * 3


def test_every_item_has_a_short_claim():
    assert all(20 <= len(item.claim) <= 110 and not item.claim.endswith(".") for item in items.ITEMS)


def test_files():
    assert items.get("fig06").files == tuple(
        f"figures/fig06_split_mnist_accuracy_matrix.{kind}" for kind in ("pdf", "png", "csv")
    )
    assert items.get("table04").files == tuple(
        f"paper_tables/table04_backward_transfer.{kind}" for kind in ("csv", "md", "tex")
    )


def test_shared_notebooks():
    assert [item.id for item in items.of_notebook("table01_known_task_identity")] == ["table01", "table03"]
    assert [item.id for item in items.of_notebook("table05_07_target_weight_distance")] == [
        "table05",
        "table06",
        "table07",
    ]
    assert items.of_notebook("quickstart") == ()


@pytest.mark.parametrize(
    ("id", "runs"),
    [
        ("fig01", 0),
        ("fig02", 8),
        ("fig05", 12),
        ("fig09", 13),
        ("fig10", 5),
        ("fig15", 24),
        ("table01", 65),
        ("table03", 90),
        ("table05", 5),
        ("table08", 18),
        ("table09", 15),
        ("table10", 68),
        ("table11", 52),
    ],
)
def test_runs_needed(id, runs):
    assert sum(len(need.seeds) for need in items.get(id).runs) == runs


def test_every_override_of_a_known_experiment_is_a_configuration_of_its_own():
    for item in items.ITEMS:
        known = [need for need in item.runs if need.experiment in experiments.EXPERIMENTS]
        hashes = {
            (need.experiment, experiments.get(need.experiment).override(list(need.overrides)).config.hash)
            for need in known
        }
        assert len(hashes) == len(known), item.id


def test_a_need_says_what_it_is_and_what_makes_its_runs():
    need = items.Need("split_mnist/hypermask-t", (1, 2), ("beta=0.01", "p=0"))
    assert need.label == "split_mnist/hypermask-t [beta=0.01 p=0]"
    assert need.command(need.seeds) == "hypermask run split_mnist/hypermask-t --set beta=0.01 p=0 --seed 1 2"
    inferring = items.Need("split_mnist/hnet", (1,), part="inference")
    assert (inferring.label, inferring.infer) == ("split_mnist/hnet", ("ent",))
    assert inferring.command([3]) == "hypermask run split_mnist/hnet --infer ent --seed 3"
    assert items.Need("split_cifar100_5x20/ncm", (1,), part="inference").infer == ()


def test_a_new_run_infers_what_any_item_needs_of_its_configuration():
    hypermask = experiments.get("split_mnist/hypermask-t")
    assert items.to_infer(hypermask) == items.to_infer(hypermask, ("ent",)) == ("ent", "fecam")
    assert items.to_infer(experiments.get("split_mnist/hnet")) == ("ent",)
    changed = hypermask.override(["p=70"])
    assert (items.to_infer(changed), items.to_infer(changed, ("fecam",))) == ((), ("fecam",))
    # The same configuration, however it is written.
    assert items.to_infer(hypermask.override(["p=30"])) == ("ent", "fecam")
    assert items.Need(hypermask.name, (1,)).command([1]) == f"hypermask run {hypermask.name} --infer ent fecam --seed 1"


def test_labels_tell_the_configurations_of_an_item_apart():
    for item in items.ITEMS:
        labels = [need.label for need in item.runs]
        assert len(labels) == len(set(labels)), item.id


def test_an_unknown_item_is_refused():
    with pytest.raises(HyperMaskError, match="expected fig01 to fig15 or table01 to table12"):
        items.get("fig16")


def test_a_need_is_met_by_a_finished_run_with_all_that_is_needed(tmp_path):
    name = "split_mnist/hypermask-t"
    need = items.Need(name, (1, 2), part="inference")
    readings = {"ent": {}, "fecam": {}}

    def run(seed=1, **values):
        return records.read(records.write(payload(name, seed, **values), None, tmp_path, overwrite=True))

    assert need.met_by(run(inference=readings))
    assert not need.met_by(run(inference={"ent": {}}))
    assert not need.met_by(run())
    assert items.Need(name, (1, 2)).met_by(run())
    assert not need.met_by(run(seed=3, inference=readings))
    assert not need.met_by(run(status="diverged", inference=readings))
