"""The paper's 15 figures and 12 tables: which notebook makes each, from which runs, into which files."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypermask import experiments, paper
from hypermask.errors import HyperMaskError

if TYPE_CHECKING:
    from hypermask.experiments import Experiment
    from hypermask.records import Record

FIVE = (1, 2, 3, 4, 5)
THREE = (1, 2, 3)
TWO = (1, 2)
ONE = (1,)


def label(experiment: str, overrides: Sequence[str]) -> str:
    """The experiment, with the changed values in brackets: `split_mnist/hypermask-t [beta=0.01]`."""
    return f"{experiment} [{' '.join(overrides)}]" if overrides else experiment


@dataclass(frozen=True)
class Need:
    """Runs that an item is made of.

    experiment: a named one. overrides: `key=value` changes, for ablations. part:
    a key of the record that has to be there besides the accuracy (`logits`, `target_distance`, `inference`).
    """

    experiment: str
    seeds: tuple[int, ...]
    overrides: tuple[str, ...] = ()
    part: str | None = None

    @property
    def label(self) -> str:
        """What it is called (see `label`)."""
        return label(self.experiment, self.overrides)

    @property
    def configured(self) -> Experiment:
        """The experiment with the changed values."""
        return experiments.get(self.experiment).override(list(self.overrides))

    def met_by(self, record: Record) -> bool:
        """Whether a record of its configuration is one of its runs: finished, and with all that is needed."""
        complete = self.has_part(record) and has_inferred(record, self.infer)
        return record.finished and record.seed in self.seeds and complete

    def has_part(self, record: Record) -> bool:
        """Whether a record has the part that is needed, if one is; of `inference`, at least one procedure.

        Logits that it names and that cannot be read are warned about.
        """
        if self.part == "logits" and (lost := record.lost_logits):
            warnings.warn(lost, stacklevel=2)
            return False
        return self.part is None or record.payload[self.part] is not None

    @property
    def infer(self) -> tuple[str, ...]:
        """Procedures that a record has to tell about."""
        return _INFER.get(self.experiment.split("/")[1], ()) if self.part == "inference" else ()

    def command(self, seeds: Iterable[int]) -> str:
        """What makes these of its runs."""
        return f"hypermask run {run_arguments(self.configured, self.infer, seeds)}"


def run_arguments(experiment: Experiment, infer: Sequence[str], seeds: Iterable[int]) -> str:
    """What `hypermask run` is told to train seeds of an experiment, so that their records tell about `infer`."""
    changes = f" --set {' '.join(experiment.overrides)}" if experiment.overrides else ""
    found = to_infer(experiment, infer)
    procedures = f" --infer {' '.join(found)}" if found else ""
    return f"{experiment.name}{changes}{procedures} --seed {' '.join(map(str, seeds))}"


def to_infer(experiment: Experiment, infer: Sequence[str] = ()) -> tuple[str, ...]:
    """Procedures that a new run is given (`run --infer`): those asked for, and those that any item needs of its
    configuration, so that no item has it trained a second time.
    """
    others = (need for item in ITEMS for need in item.runs if need.experiment == experiment.name and need.infer)
    needed = [need.infer for need in others if need.configured.config.hash == experiment.config.hash]
    return tuple(dict.fromkeys(procedure for procedures in (infer, *needed) for procedure in procedures))


def has_inferred(record: Record, procedures: Iterable[str]) -> bool:
    """Whether a record tells what each of the procedures infers."""
    return set(procedures) <= set(record.payload["inference"] or ())


# HNET gives no features for FeCAM; the paper has it with entropy alone.
_INFER = {"hypermask-f": ("ent", "fecam"), "hypermask-t": ("ent", "fecam"), "hnet": ("ent",)}


@dataclass(frozen=True)
class Headline:
    """The one number by which an item is compared with ours.

    quantity: `accuracy`, `bwt`, or `distance`, the growth D(1, T) - D(1, 2) of a `layer`'s weight distance.
    """

    experiment: str
    quantity: str = "accuracy"
    layer: int | None = None


@dataclass(frozen=True)
class Item:
    """A figure or table of the paper.

    id: `fig06`, `table04`.  claim: what the paper says it shows, in short.  notebook, stem: the names of its notebook
    and of its files, without suffix.  by_seed: whether it shows its runs one by one, each as the model of its seed.
    """

    id: str
    title: str
    claim: str
    notebook: str
    runs: tuple[Need, ...]
    headline: Headline | None
    stem: str
    by_seed: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """The files its notebook writes, relative to the project's root."""
        if self.id.startswith("fig"):
            return tuple(f"figures/{self.stem}.{kind}" for kind in ("pdf", "png", "csv"))
        return tuple(f"paper_tables/{self.stem}.{kind}" for kind in ("csv", "md", "tex"))

    @property
    def compares_settings(self) -> bool:
        """Whether it sets configurations that differ in some values beside each other."""
        return any(need.overrides for need in self.runs)

    def shows(self, need: Need, record: Record) -> bool:
        """Whether the item shows this record of the need's configuration.

        A finished one has to have the part that is needed. Settings that are compared are shown with the same
        seeds, those needed.
        """
        complete = not record.finished or need.has_part(record)
        return complete and (not self.compares_settings or record.seed in need.seeds)


_KNOWN_TASK_CLAIM = "HyperMask-T is second best on Permuted and Split MNIST, HyperMask-F best on Split CIFAR-100"
_DISTANCE_CLAIM = "the target's weights move further from where they were after task 1 with every task"
_CLAIMS = {
    "fig01": "a hypernetwork maps a task's embedding to a semi-binary mask over the target's weights",
    "fig02": "HyperMask-T keeps its accuracy on the first task even after many later ones",
    "fig03": "with a fixed target accuracy decreases only slightly after later tasks, with a trainable one more",
    "fig04": "forgetting over 40 tasks is not substantial; some tasks even gain after later ones",
    "fig05": "too strong a regularisation is worst with a fixed target; a trainable target forgets more",
    "fig06": "accuracy drops only slightly after later tasks; tasks 2 and 5 are the hardest for both methods",
    "fig07": "a fixed ResNet-18 reaches higher accuracy and forgets less than a trainable one",
    "fig08": "HyperMask is better than HNET on the more recent tasks, HNET on the first ones",
    "fig09": "different hyperparameters give similar results",
    "fig10": "the decrease in accuracy after all five tasks is minimal",
    "fig11": "with the same tasks a fixed target is slightly better than a trainable one",
    "fig12": "with masks the classes are separated; without them only those of the first task are",
    "fig13": "without masks, samples of the first task form a separate structure and the remaining ones one cluster",
    "fig14": "with masks, classes form different clusters; without them only 0 and 1 are separated",
    "fig15": "differences between settings are slight in many cases",
    "table01": _KNOWN_TASK_CLAIM,
    "table02": "HyperMask+FeCAM is best of all on Permuted MNIST and, with a fixed target, on CIFAR-100 in 5 tasks",
    "table03": _KNOWN_TASK_CLAIM,
    "table04": "backward transfer is slightly negative with 10 tasks and on Split MNIST: hardly any forgetting",
    "table05": _DISTANCE_CLAIM,
    "table06": _DISTANCE_CLAIM,
    "table07": _DISTANCE_CLAIM,
    "table08": "without either regulariser earlier tasks are forgotten",
    "table09": "too intense sparsification deteriorates the results, not enormously",
    "table10": "removing 50 or 70 % of the weights is best, together with a strong regularisation",
    "table11": "worse settings have a small embedding and weak regularisations",
    "table12": "HyperMask-T needs 21 minutes for Split MNIST and about four hours at most for the others",
}


def _item(
    stem: str,
    title: str,
    *runs: Need,
    notebook: str | None = None,
    headline: Headline | None = None,
    by_seed: bool = False,
) -> Item:
    id = stem.split("_")[0]
    return Item(id, title, _CLAIMS[id], notebook or stem, runs, headline, stem, by_seed)


def _both(benchmark: str, part: str | None = None) -> tuple[Need, ...]:
    return tuple(Need(f"{benchmark}/hypermask-{kind}", FIVE, part=part) for kind in "ft")


def _changed(experiment: str, seeds: tuple[int, ...], *changes: str) -> tuple[Need, ...]:
    """The experiment with each change alone; a change of several keys is written with spaces."""
    return tuple(Need(experiment, seeds, tuple(change.split())) for change in changes)


SPLIT_T = "split_mnist/hypermask-t"
PERMUTED_T = "permuted_mnist_10/hypermask-t"
PERMUTED_WSN = "permuted_mnist_10/wsn"
CIFAR_F, CIFAR_T = "split_cifar100/hypermask-f", "split_cifar100/hypermask-t"
TINY_F, TINY_T = "tiny_imagenet/hypermask-f", "tiny_imagenet/hypermask-t"

_KNOWN_TASK = (
    *_both("permuted_mnist_10"),
    *_both("split_mnist"),
    *_both("split_cifar100"),
    *_both("tiny_imagenet"),
    Need("permuted_mnist_10/hnet", FIVE),
    Need("split_mnist/hnet", FIVE),
    *_changed(PERMUTED_WSN, FIVE, "c=50"),
    Need("split_cifar100/wsn", FIVE),
    Need("tiny_imagenet/wsn", FIVE),
)
# Table 3 prints WSN for all of these shares of the weights; 30 % is the named configuration.
_KNOWN_TASK_FULL = (
    *_KNOWN_TASK,
    Need(PERMUTED_WSN, FIVE),
    *_changed(PERMUTED_WSN, FIVE, "c=3", "c=5", "c=10", "c=70"),
)


def get(id: str) -> Item:
    """The item of that id (`fig06`, `table04`)."""
    for item in ITEMS:
        if item.id == id:
            return item
    raise HyperMaskError(f"unknown item {id!r}; expected fig01 to fig15 or table01 to table12.")


def of_notebook(notebook: str) -> tuple[Item, ...]:
    """The items that a notebook makes; none for the quickstart."""
    return tuple(item for item in ITEMS if item.notebook == notebook)


def _figures() -> tuple[Item, ...]:
    return (
        _item("fig01_method", "Method: from embeddings to masks to subnetworks"),
        _item(
            "fig02_permuted_mnist_mean_accuracy",
            "Permuted MNIST, 10 and 100 tasks: mean accuracy",
            Need(PERMUTED_T, FIVE),
            Need("permuted_mnist_100/hypermask-t", THREE),
            headline=Headline(PERMUTED_T),
        ),
        _item(
            "fig03_cifar100_accuracy_matrix",
            "Split CIFAR-100: accuracy matrices",
            *_both("split_cifar100"),
            headline=Headline(CIFAR_F),
        ),
        _item(
            "fig04_tiny_imagenet_accuracy",
            "Tiny ImageNet: two models",
            # The paper shows model 5 of figure 11, the best of each kind.
            Need(TINY_F, (5,)),
            Need(TINY_T, (5,)),
            by_seed=True,
        ),
        _item(
            "fig05_cifar100_ablation",
            "Split CIFAR-100: ablation",
            Need(CIFAR_F, ONE),
            *_changed(CIFAR_F, ONE, "embedding_size=24", "embedding_size=96", "beta=0.01", "beta=1", "beta=10"),
            # The paper's figure has p = 0 for T too, whose main run has 15.
            *_changed(CIFAR_T, TWO, "p=0", "p=0 beta=1", "p=0 beta=10"),
        ),
        _item(
            "fig06_split_mnist_accuracy_matrix",
            "Split MNIST: accuracy matrices of HyperMask and HNET",
            Need(SPLIT_T, FIVE),
            Need("split_mnist/hnet", FIVE),
            headline=Headline(SPLIT_T),
        ),
        _item(
            "fig07_cifar100_mean_accuracy",
            "Split CIFAR-100: mean accuracy",
            *_both("split_cifar100"),
            headline=Headline(CIFAR_F),
        ),
        _item(
            "fig08_permuted_mnist_accuracy_matrix",
            "Permuted MNIST: accuracy matrices of HyperMask and HNET",
            Need(PERMUTED_T, FIVE),
            Need("permuted_mnist_10/hnet", FIVE),
            headline=Headline(PERMUTED_T),
        ),
        _item(
            "fig09_permuted_mnist_stability",
            "Permuted MNIST: stability",
            Need(PERMUTED_T, ONE),
            *_changed(PERMUTED_T, ONE, "hypernetwork_hidden=25,25", "l1=plain", "p=30"),
            *_changed(PERMUTED_T, ONE, "beta=0.001", "beta=0.0025", "beta=0.005", "beta=0.01", "beta=0.1"),
            *_changed(PERMUTED_T, ONE, "lam=0.0005", "lam=0.0025", "lam=0.005", "lam=0.01"),
        ),
        _item(
            "fig10_split_mnist_mean_accuracy",
            "Split MNIST: mean accuracy",
            Need(SPLIT_T, FIVE),
            headline=Headline(SPLIT_T),
        ),
        _item(
            "fig11_tiny_imagenet_all_models",
            "Tiny ImageNet: all ten models",
            *_both("tiny_imagenet"),
            headline=Headline(TINY_F),
            by_seed=True,
        ),
        _item(
            "fig12_permuted_mnist_tsne_classes",
            "Permuted MNIST: t-SNE by class",
            Need(PERMUTED_T, ONE, part="logits"),
        ),
        _item(
            "fig13_permuted_mnist_tsne_tasks",
            "Permuted MNIST: t-SNE by task",
            Need(PERMUTED_T, ONE, part="logits"),
        ),
        _item("fig14_split_mnist_tsne", "Split MNIST: t-SNE", Need(SPLIT_T, ONE, part="logits")),
        _item(
            "fig15_split_mnist_stability",
            "Split MNIST: stability",
            Need(SPLIT_T, TWO),
            *_changed(SPLIT_T, TWO, "embedding_size=24", "embedding_size=72", "embedding_size=96"),
            *_changed(SPLIT_T, TWO, "hypernetwork_hidden=10,10", "hypernetwork_hidden=50,50", "l1=plain"),
            *_changed(SPLIT_T, TWO, "batch_size=64", "beta=0.01", "p=0", "p=70", "lam=0.0001"),
        ),
    )


def _tables() -> tuple[Item, ...]:
    known = "table01_known_task_identity"
    distances = "table05_07_target_weight_distance"
    return (
        _item(known, "Known task identity: accuracy", *_KNOWN_TASK, headline=Headline(SPLIT_T)),
        _item(
            "table02_unknown_task_identity",
            "Unknown task identity: accuracy",
            Need(PERMUTED_T, FIVE, part="inference"),
            Need(SPLIT_T, FIVE, part="inference"),
            *_both("split_cifar100_5x20", part="inference"),
            # The same with batch statistics kept per task, so that batches cannot give the task away.
            *(
                Need(f"split_cifar100_5x20/hypermask-{kind}", FIVE, ("batch_stats=task",), part="inference")
                for kind in "ft"
            ),
            Need("permuted_mnist_10/hnet", FIVE, part="inference"),
            Need("split_mnist/hnet", FIVE, part="inference"),
            *(Need(f"split_cifar100_5x20/{method}", FIVE, part="inference") for method in ("ncm", "fetril", "fecam")),
        ),
        _item(
            "table03_known_task_identity_full",
            "Known task identity: accuracy, all settings",
            *_KNOWN_TASK_FULL,
            notebook=known,
            headline=Headline(SPLIT_T),
        ),
        _item(
            "table04_backward_transfer",
            "Backward transfer",
            Need(PERMUTED_T, FIVE),
            Need("permuted_mnist_100/hypermask-t", THREE),
            Need(SPLIT_T, FIVE),
            *_both("split_cifar100"),
            *_both("tiny_imagenet"),
            Need("permuted_mnist_10/hnet", FIVE),
            Need("split_mnist/hnet", FIVE),
            Need(PERMUTED_WSN, FIVE),
            Need("split_cifar100/wsn", FIVE),
            Need("tiny_imagenet/wsn", FIVE),
            headline=Headline(SPLIT_T, "bwt"),
        ),
        *(
            _item(
                f"table{layer + 4:02}_target_weight_distance",
                f"Distance of the target's weights between tasks, layer {layer}",
                # The paper shows one exemplary model; the runs of table 1 tell whether others are alike.
                Need(PERMUTED_T, FIVE, part="target_distance"),
                notebook=distances,
                headline=Headline(PERMUTED_T, "distance", layer),
            )
            for layer in (1, 2, 3)
        ),
        _item(
            "table08_loss_components",
            "Permuted MNIST: loss components",
            *(Need(PERMUTED_T, THREE, (f"beta={row.beta:g}", f"lam={row.lam:g}")) for row in paper.loss_components()),
        ),
        _item(
            "table09_permuted_mnist_sparsity",
            "Permuted MNIST: sparsity",
            # p = 0 is the main configuration.
            *(Need(PERMUTED_T, THREE, (f"p={row.p:g}",) if row.p else ()) for row in paper.sparsity()),
        ),
        _item(
            "table10_tiny_imagenet_fixed_ablation",
            "Tiny ImageNet, fixed target: ablation",
            *_ablation(TINY_F, "fixed"),
        ),
        _item(
            "table11_tiny_imagenet_trainable_ablation",
            "Tiny ImageNet, trainable target: ablation",
            *_ablation(TINY_T, "trainable"),
        ),
        _item(
            "table12_training_time",
            "Training time",
            Need(SPLIT_T, FIVE),
            Need(PERMUTED_T, FIVE),
            Need(CIFAR_T, FIVE),
            Need("split_cifar100_5x20/hypermask-t", FIVE),
            Need(TINY_T, FIVE),
        ),
    )


def _ablation(experiment: str, target: str) -> tuple[Need, ...]:
    """One run of each distinct setting of table 10 or 11; table 11 prints six of them twice."""
    settings = []
    for row in paper.tiny_imagenet_ablation(target):
        values = [
            f"embedding_size={row.embedding_size}",
            f"hypernetwork_hidden={','.join(map(str, row.hypernetwork_hidden))}",
            f"beta={row.beta:g}",
            f"p={row.p:g}",
        ]
        if row.lam is not None:
            values.append(f"lam={row.lam:g}")
        settings.append(tuple(values))
    return tuple(Need(experiment, ONE, setting) for setting in dict.fromkeys(settings))


ITEMS: tuple[Item, ...] = _figures() + _tables()
"""The 27 items: figures, then tables, each in the paper's order."""
