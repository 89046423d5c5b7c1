import json

import numpy as np
import pytest
from payloads import accuracy_matrix, write_record

from hypermask import files, items, outputs, plots, tables
from hypermask.errors import HyperMaskError
from hypermask.outputs import Outputs
from hypermask.plots import styling
from hypermask.results import gather


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    write_record(tmp_path / "records", "split_mnist/hypermask-t", 1)
    return tmp_path


def write_all(profile="recorded", own_runs=False):
    out = Outputs("fig10_split_mnist_mean_accuracy", profile, own_runs)
    panels = [plots.Panel("HyperMask-T", 5, np.array([accuracy_matrix(5, 1)], dtype=float))]
    image = out.figure(plots.mean_accuracy(panels, out.title("A")), plots.mean_accuracy_data(panels), "in words")
    out.table(tables.backward_transfer(gather("table04")), "table04_backward_transfer")
    out.close(gather("fig10").values())
    return image


def everything(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}


def test_files_are_those_the_items_name(root):
    write_all()
    for item in ("fig10", "table04"):
        assert all((root / name).is_file() for name in items.get(item).files)


def test_same_records_same_bytes_and_nothing_rewritten(root):
    write_all()
    before, times = everything(root), {p: p.stat().st_mtime_ns for p in root.rglob("*.*")}
    write_all()
    assert everything(root) == before
    assert {p: p.stat().st_mtime_ns for p in root.rglob("*.*")} == times


def test_pdf_has_truetype_fonts_and_no_date_png_no_software(root):
    write_all()
    pdf = (root / "figures/fig10_split_mnist_mean_accuracy.pdf").read_bytes()
    png = (root / "figures/fig10_split_mnist_mean_accuracy.png").read_bytes()
    assert b"CreationDate" not in pdf and b"/Type3" not in pdf.replace(b"/Type 3", b"/Type3")
    assert b"Software" not in png
    from PIL import Image

    with Image.open(root / "figures/fig10_split_mnist_mean_accuracy.png") as image:
        assert round(image.info["dpi"][0]) == 200
        assert image.width == round(styling.COLUMN * 200)


def test_the_manifest_names_files_and_records_with_checksums(root):
    write_all()
    manifest = json.loads((root / "figures/manifests/fig10_split_mnist_mean_accuracy.json").read_text())
    assert sorted(manifest) == ["files", "notebook", "profile", "records"]
    assert len(manifest["files"]) == 6
    for name, checksum in manifest["files"].items():
        assert files.sha256(root / name) == checksum
    record = gather("fig10")["split_mnist/hypermask-t"].records[0]
    assert manifest["records"] == {record.path.relative_to(root).as_posix(): record.content_sha256}


@pytest.mark.parametrize(
    ("profile", "own_runs", "folder"),
    [
        ("recorded", False, ""),
        ("smoke", False, "build/smoke"),
        ("recorded", True, "build/own"),
        ("paper", False, "build/own"),
    ],
)
def test_only_recorded_outputs_lie_beside_the_committed_ones(root, profile, own_runs, folder):
    write_all(profile, own_runs)
    written = {path.relative_to(root).as_posix() for path in root.rglob("*.*") if path.suffix in (".png", ".tex")}
    start = f"{folder}/" if folder else ""
    assert written == {
        f"{start}figures/fig10_split_mnist_mean_accuracy.png",
        f"{start}paper_tables/table04_backward_transfer.tex",
    }


def test_smoke_outputs_say_so_and_have_the_same_columns(root):
    write_all()
    write_all("smoke")
    for name in ("figures/fig10_split_mnist_mean_accuracy.csv", "paper_tables/table04_backward_transfer.csv"):
        recorded = (root / name).read_text().splitlines()
        smoke = (root / "build/smoke" / name).read_text().splitlines()
        assert smoke[0].startswith("# smoke profile")
        assert smoke[1] == recorded[0]
    for kind in ("md", "tex"):
        first = (root / f"build/smoke/paper_tables/table04_backward_transfer.{kind}").read_text().splitlines()[0]
        assert "smoke profile" in first
    assert Outputs("n", "smoke").title("Figure") == "Figure (smoke profile)"


def test_changed_own_runs_are_told_in_the_title_and_go_where_own_runs_go(root):
    outputs = Outputs("n", changes="p=70")
    assert outputs.title("Figure") == "Figure (your own runs with p=70)"
    assert outputs.base == root / "build/own"
    (root / "build").mkdir(exist_ok=True)
    table = outputs.table(tables.backward_transfer(gather("table04")))
    assert table.mark == "your own runs with p=70"
    assert "(your own runs with p=70)" in (root / "build/own/paper_tables/n.md").read_text().splitlines()[0]
    first, head, *_ = (root / "build/own/paper_tables/n.csv").read_text().splitlines()
    assert (first, head.split(",")[0]) == ("# your own runs with p=70", "method")


def test_the_image_shown_carries_its_alternative_text(root):
    image = write_all()
    data, metadata = image._repr_mimebundle_()
    assert metadata["image/png"] == {"width": 330, "alt": "in words"}
    assert repr(image) == "<IPython.core.display.Image object>"
    assert data["image/png"]


def test_unknown_profile():
    with pytest.raises(HyperMaskError, match="unknown profile 'fast'; expected recorded, paper, smoke"):
        Outputs("n", "fast")


def test_rendering_is_repeatable():
    figures = [plots.mask_images([np.eye(4)], ["task 1"], "masks") for _ in range(2)]
    for kind in ("pdf", "png"):
        first, second = (outputs.render(figure, kind) for figure in figures)
        assert first == second
