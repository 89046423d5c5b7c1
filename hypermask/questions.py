"""What the paper leaves open: the choices there are, and the runs that tell them apart.

The first choice of each question is that of the named configuration, the others change one value of it. They are
compared on validation images first; the test accuracy stands beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypermask import metrics, paths, records
from hypermask.items import FIVE, ONE, PERMUTED_WSN, THREE, Need
from hypermask.typesetting import BLANK, fixed

# How ENT is read here: on the networks of Split MNIST all readings agree.
_READING = "released-code"
_FIRST_TASK = "tasks=1"


@dataclass(frozen=True)
class Question:
    """title: what is open.  choices: in words, and the runs of each, that of the named configuration first."""

    title: str
    choices: tuple[tuple[str, Need], ...]


def _question(
    title: str,
    experiment: str,
    seeds: tuple[int, ...],
    choices: dict[str, str],
    part: str | None = None,
    common: str = "",
) -> Question:
    """choices: in words -> the change, empty for the named configuration.  common: a change of all of them."""
    needed = {
        words: Need(experiment, seeds, tuple(filter(None, (common, change))), part) for words, change in choices.items()
    }
    return Question(title, tuple(needed.items()))


QUESTIONS = (
    _question(
        "Activation of the target MLP",
        "split_mnist/hypermask-t",
        THREE,
        {"ReLU": "", "ELU": "target_activation=elu"},
        part="inference",
    ),
    _question(
        "Factor of the sum over previous tasks in L_output",
        "split_mnist/hypermask-t",
        THREE,
        {"beta/(t-1)": "", "beta/(t-1)²": "output_regularizer=released-code"},
        part="inference",
    ),
    _question(
        "Initialisation of HNET's hypernetwork",
        "split_mnist/hnet",
        ONE,
        {"as HNET's authors (Xavier)": "", "hypnettorch's default": "initialisation=hypnettorch"},
    ),
    *(
        _question(
            f"Images of WSN, which keeps {share} % of the weights",
            PERMUTED_WSN,
            FIVE,
            {"WSN's own: 28x28, standardised": "", "HyperMask's: padded, 0 to 1": "pixels=padded"},
            common=f"c={share}",
        )
        for share in (3, 30)
    ),
    # Those on images, of the first task alone: figure 3's caption prints 81.0 % of HyperMask-T just after it.
    _question(
        "Stem of ResNet-18 on 32x32 images, first task alone",
        "split_cifar100/hypermask-t",
        ONE,
        {
            "3x3 convolution": "",
            "3x3 convolution, max pooling": "target_stem=conv3-pool",
            "7x7 convolution of stride 2, max pooling": "target_stem=conv7-pool",
        },
        common=_FIRST_TASK,
    ),
    _question(
        "Batch-norm scale and shift of a fixed target, first task alone",
        "split_cifar100/hypermask-f",
        ONE,
        {"fixed": "", "trained, shared by the tasks": "norm_parameters=always"},
        common=_FIRST_TASK,
    ),
    _question(
        "Channel statistics that normalise images, first task alone",
        "split_cifar100/hypermask-f",
        ONE,
        {"ImageNet's": "", "CIFAR-100's": "statistics=cifar100"},
        common=_FIRST_TASK,
    ),
    _question(
        "Validation images, first task alone",
        "split_cifar100/hypermask-f",
        ONE,
        {"the first 50 of each class": "", "the first 500 of a task": "stratified=false"},
        common=_FIRST_TASK,
    ),
)


def needs() -> list[Need]:
    """The runs of every choice; one that answers several questions is listed for each."""
    return [need for question in QUESTIONS for _, need in question.choices]


def markdown() -> str:
    """Each question's choices with what the committed runs measured, as a Markdown table."""
    head = ("question", "choice", "runs", "validation accuracy", "test accuracy", "BWT", "ENT")
    rows = [head, ("---",) * len(head)]
    for question in QUESTIONS:
        for number, (words, need) in enumerate(question.choices):
            title = f"{question.title} (`{need.experiment}`)" if number == 0 else ""
            rows.append((title, f"{words} (default)" if number == 0 else words, *_measured(need)))
    return "\n".join(
        [
            *(f"| {' | '.join(row)} |" for row in rows),
            "",
            "Percent, mean ± sample standard deviation over the runs. Validation accuracy: of each task just after it "
            "was learned, on the images set aside for that, mean over tasks. Test accuracy: mean over tasks after the "
            "last. ENT: class accuracy over the pooled images of all tasks, each inferred by entropy. For missing "
            "runs: `hypermask sweep questions`.",
        ]
    )


def _measured(need: Need) -> tuple[str, ...]:
    """The cells of one choice."""
    experiment = need.configured
    found = records.find(experiment.name, experiment.config.hash, paths.records(), need.seeds)
    runs = [record for record in found if record.finished]
    inferred = [record for record in runs if "ent" in (record.payload["inference"] or {})]
    return (
        f"{len(runs)}/{len(need.seeds)}",
        _shown([value for record in runs if (value := record.validation_accuracy) is not None]),
        _shown([metrics.mean_accuracy(record.accuracy) for record in runs]),
        # One task has none.
        _shown([metrics.backward_transfer(record.accuracy) for record in runs if len(record.accuracy) > 1], "+"),
        _shown([record.payload["inference"]["ent"][_READING]["class_accuracy"][-1] for record in inferred]),
    )


def _shown(values: Sequence[float], sign: str = "") -> str:
    if not values:
        return BLANK
    found = metrics.summary(values)
    return fixed(found.mean, 2, sign) + ("" if found.sd is None else f" ± {found.sd:.2f}")
