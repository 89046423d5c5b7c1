import io
import os
import pickle

import numpy as np
import pytest
from layouts import CIFAR100_PER_CLASS, as_python2, write_cifar100

from hypermask.benchmarks import cifar100_files
from hypermask.errors import HyperMaskError
from hypermask.files import sha256


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(cifar100_files, "PER_CLASS", CIFAR100_PER_CLASS)


@pytest.fixture
def folder(tmp_path):
    return write_cifar100(tmp_path)


def refusal(folder):
    with pytest.raises(HyperMaskError) as error:
        cifar100_files.read(folder)
    text = str(error.value)
    assert text.endswith(
        "; delete the folder, and the published cifar-100-python.tar.gz is unpacked or downloaded again."
    )
    assert "\n" not in text
    return text


def rewrite(path, **changes):
    content = pickle.loads(path.read_bytes()) | changes
    path.write_bytes(pickle.dumps({key: value for key, value in content.items() if value is not None}))


def test_images_labels_names_and_checksums(folder):
    found = cifar100_files.read(folder)
    content = pickle.loads((folder / "train").read_bytes())
    assert np.array_equal(found.train.images, content["data"].reshape(600, 3, 32, 32))
    assert found.train.images.dtype == np.uint8
    assert found.train.labels.tolist() == content["fine_labels"]
    assert found.test.images.shape == (200, 3, 32, 32)
    assert found.class_names[3] == "name 3"
    assert found.checksums == {f"cifar-100-python/{name}": sha256(folder / name) for name in ("train", "test", "meta")}


def test_foreign_files_are_used_with_a_remark(folder):
    assert cifar100_files.read(folder).remark == (
        f"train and test and meta in {folder} are not the published files by their MD5, yet complete (6 + 2 images of "
        "each of 100 classes); they are used, and the record names their checksums."
    )


def test_published_files_are_used_without_one(folder, monkeypatch):
    md5 = {name: cifar100_files._md5((folder / name).read_bytes()) for name in ("train", "test", "meta")}
    monkeypatch.setattr(cifar100_files, "PUBLISHED_MD5", md5)
    assert cifar100_files.read(folder).remark == ""


def test_files_as_python_2_wrote_them(folder):
    new = cifar100_files.read(folder)
    for name in ("train", "test", "meta"):
        path = folder / name
        path.write_bytes(as_python2(pickle.loads(path.read_bytes())))
    old = cifar100_files.read(folder)
    assert np.array_equal(old.train.images, new.train.images)
    assert np.array_equal(old.test.labels, new.test.labels)
    assert old.class_names == new.class_names


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_pickle_protocol_of_this_numpy(protocol):
    content = {"data": np.arange(6, dtype=np.uint8).reshape(2, 3), "n": [1, 2.5, "text", b"\xff", None, True, (1, 2)]}
    loaded = cifar100_files._PlainUnpickler(io.BytesIO(pickle.dumps(content, protocol)), encoding="latin1").load()
    assert np.array_equal(loaded["data"], content["data"])
    assert loaded["n"] == content["n"]


class Call:
    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize(
    ("call", "named"),
    [
        (Call(os.mkdir, "harm"), f"{os.mkdir.__module__}.mkdir"),
        (Call(eval, "open('harm', 'w')"), "eval"),
        (Call(np.save, "harm", 1), "numpy.save"),
        (Call(getattr, "text", "upper"), "getattr"),
    ],
)
def test_a_pickle_that_calls_anything_is_refused_before_it_does(folder, call, named, protocol, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "train").write_bytes(pickle.dumps({"data": call}, protocol))
    text = refusal(folder)
    assert f"{folder / 'train'}: expected arrays, lists, text and numbers alone, found a pickle that names " in text
    assert named in text
    assert sorted(path.name for path in folder.iterdir()) == ["meta", "test", "train"]


def test_codecs_other_than_latin1_are_refused(folder):
    import codecs

    (folder / "meta").write_bytes(pickle.dumps(Call(codecs.encode, "text", "rot13"), 2))
    assert "found a pickle that names the encoding rot13;" in refusal(folder)


@pytest.mark.parametrize("kept", [0, 1, 1000, -1])
def test_truncated_files(folder, kept):
    path = folder / "train"
    whole = path.read_bytes()
    path.write_bytes(whole[:kept])
    text = refusal(folder)
    assert f"{path}: expected an intact pickle, found {len(whole[:kept])} bytes that break off or are damaged (" in text


def test_missing_files(folder):
    (folder / "meta").unlink()
    assert f"{folder / 'meta'}: expected a readable file, found no such file or directory;" in refusal(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"data": np.zeros((599, 3072), np.uint8)},
            "images as uint8 [600, 3072] under 'data', found uint8 [599, 3072]",
        ),
        ({"data": np.zeros((600, 3072))}, "images as uint8 [600, 3072] under 'data', found float64 [600, 3072]"),
        ({"data": None}, "images as uint8 [600, 3072] under 'data', found NoneType"),
        ({"fine_labels": None}, "a list of classes from 0 to 99 under 'fine_labels', found something else"),
        ({"fine_labels": [100] * 600}, "a list of classes from 0 to 99 under 'fine_labels', found something else"),
        ({"fine_labels": [True] * 600}, "a list of classes from 0 to 99 under 'fine_labels', found something else"),
        ({"fine_labels": [*range(99), 98] * 6}, "6 images of each class, found 0 to 12"),
        ({"fine_labels": list(range(100)) * 5}, "6 images of each class, found 5 to 5"),
    ],
)
def test_incomplete_files(folder, changes, message):
    rewrite(folder / "train", **changes)
    assert refusal(folder).startswith(f"{folder / 'train'}: expected {message};")


def test_names_and_containers_of_other_kinds(folder):
    rewrite(folder / "meta", fine_label_names=["one"] * 100)
    assert "expected the names of 100 classes under 'fine_label_names', found something else;" in refusal(folder)
    (folder / "meta").write_bytes(pickle.dumps([1]))
    assert f"{folder / 'meta'}: expected a dictionary, found a list;" in refusal(folder)
