import payloads
from payloads import payload, write_record

from hypermask import admission, experiments, questions, records, status, sweeps
from hypermask.questions import QUESTIONS

T = "split_mnist/hypermask-t"
F = "split_cifar100/hypermask-f"


def cells(choice: str) -> list[str]:
    (line,) = [line for line in questions.markdown().splitlines() if f"| {choice} |" in line]
    return [cell.strip() for cell in line.strip("|").split("|")][2:]


def test_every_choice_is_a_configuration_of_its_own_and_the_first_is_the_named_one():
    for question in QUESTIONS:
        needs = [need for _, need in question.choices]
        # Nothing is changed in the first that is not in all: how many tasks are trained, or WSN's share of the weights.
        assert all(change in ("tasks=1", "c=3", "c=30") for change in needs[0].overrides)
        assert all(set(needs[0].overrides) <= set(need.overrides) for need in needs)
        hashes = [experiments.get(need.experiment).override(list(need.overrides)).config.hash for need in needs]
        assert len(set(hashes)) == len(hashes) >= 2
        assert len({(need.experiment, need.seeds) for need in needs}) == 1


def test_what_is_measured_stands_beside_its_choice(root):
    readings = {"released-code": {"class_accuracy": [100.0, 55.0], "task_accuracy": [], "confusion": []}}
    for seed, last in ((1, 99.0), (2, 99.4)):
        # Task j ends at `last`, from 90 + j just after it was learned.
        made_up = payload(T, seed, final=[last] * 5, overrides=["target_activation=elu"], inference={"ent": readings})
        records.write(made_up, None, root / "records")
    assert cells("ELU") == ["2/3", "99.00 ± 0.00", "99.20 ± 0.28", "+7.70 ± 0.28", "55.00 ± 0.00"]
    assert cells("ReLU (default)") == ["0/3", "–", "–", "–", "–"]


def write_first_task(root, change: str, curve: dict) -> None:
    changes = {"overrides": ["tasks=1", change], "validation": [curve]}
    records.write(payload(F, 1, final=[80.0], **changes), None, root / "records")


def test_of_a_run_that_keeps_the_lowest_validation_loss_that_model_counts(root):
    curve = {"iteration": [1, 2, 3], "loss": [0.5, 0.1, 0.3], "accuracy": [50.0, 60.0, 70.0]}
    write_first_task(root, "norm_parameters=always", curve)
    assert cells("trained, shared by the tasks")[:2] == ["1/1", "60.00"]


def test_losses_that_are_not_finite_are_never_the_lowest_and_no_point_is_no_value(root):
    curve = {"iteration": [1, 2, 3], "loss": [None, 0.4, 0.3], "accuracy": [50.0, 60.0, 70.0]}
    empty = {"iteration": [], "loss": [], "accuracy": []}
    write_first_task(root, "norm_parameters=always", curve)
    write_first_task(root, "statistics=cifar100", empty)
    assert cells("trained, shared by the tasks")[:2] == ["1/1", "70.00"]
    assert cells("CIFAR-100's")[:3] == ["1/1", "–", "80.00"]
    assert payloads.record(experiment=F, validation=[curve, *[empty] * 9]).validation_accuracy is None


def test_one_task_has_no_backward_transfer(root):
    changes = ["tasks=1", "target_stem=conv7-pool"]
    made_up = payload("split_cifar100/hypermask-t", 1, final=[81.0], overrides=changes)
    records.write(made_up, None, root / "records")
    shown = cells("7x7 convolution of stride 2, max pooling")
    assert (shown[0], shown[2:4]) == ("1/1", ["81.00", "–"])


def test_the_missing_runs_are_one_sweep(root):
    jobs = sweeps.jobs([sweeps.QUESTIONS])
    assert sum(len(job.missing) for job in jobs) == 3 * 3 + 2 + 4 * 5 + 4 + 3
    assert all(job.infer == ("ent", "fecam") for job in jobs if job.experiment.name == T)


def test_their_records_are_taken(root):
    run = write_record(root / "runs", T, 1, 99.0, overrides=["target_activation=elu"])
    assert admission.add([run])


def test_the_page_shows_todays_records(project_root, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(project_root))
    text = (project_root / "REPRODUCIBILITY.md").read_text(encoding="utf-8")
    section = text.partition("<!-- questions -->")[2].partition("<!-- /questions -->")[0]
    assert section.strip() == questions.markdown(), "write it anew: hypermask status --markdown REPRODUCIBILITY.md"


def test_a_page_may_have_either_section(root):
    page = root / "PAGE.md"
    page.write_text("<!-- questions -->\n<!-- /questions -->\n<!-- results -->\n<!-- /results -->\n")
    assert status.write_markdown(page)
    assert questions.markdown() in page.read_text()
    assert status.markdown() in page.read_text()
