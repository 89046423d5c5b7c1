"""A single accuracy that is 0.1 off is seen in every notebook that shows it."""

import json
import shutil

from nbval_run import NOTEBOOKS, PROJECT, nbval

from hypermask import experiments, files, records

SHOWN_BY = {
    "split_mnist/hypermask-t": {
        "fig06_split_mnist_accuracy_matrix",
        "fig10_split_mnist_mean_accuracy",
        "fig14_split_mnist_tsne",
        "fig15_split_mnist_stability",
        "quickstart",
        "table01_known_task_identity",
        "table04_backward_transfer",
        "your_method",
    },
    "split_mnist/hypermask-f": {"table01_known_task_identity", "your_method"},
}


def test_nbval_fails_in_every_notebook_that_shows_the_record(tmp_path):
    shutil.copytree(PROJECT / "records", tmp_path / "records")
    altered = {name: alter(tmp_path, name) for name in SHOWN_BY}
    result = nbval([path for path in NOTEBOOKS if path.stem in set.union(*SHOWN_BY.values())], tmp_path)
    assert result.status == 1
    assert all(path.is_file() for path in altered.values())
    assert set(result.failed) >= set.union(*SHOWN_BY.values()), result.output


def alter(root, name):
    """Change the last accuracy of the last row of the experiment's first record by 0.1, and seal it again."""
    path = records.location(root / "records", name, experiments.get(name).config.hash, 1)
    payload = json.loads(path.read_text())
    payload["accuracy"][-1][0] -= 0.1
    path.write_bytes(files.pretty_json(records.seal(payload)))
    records.read(path)
    return path
