import gzip
import os
import struct
import sys

import numpy as np
import pytest
import torch
from layouts import CIFAR100_PER_CLASS, TINY_PER_CLASS, write_cifar100, write_tiny_imagenet
from torchvision.datasets.mnist import read_image_file, read_label_file

from hypermask.benchmarks import cifar100_files, data, tiny_imagenet_files
from hypermask.errors import HyperMaskError

LABELS = "t10k-labels-idx1-ubyte"


def write_idx(path, array, kind=8):
    header = bytes((0, 0, kind, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(header + array.astype(np.uint8).tobytes()))
    return path


def read_labels(path):
    return data.read_idx(path, *data.MNIST_FILES[LABELS])


def refusal(path):
    with pytest.raises(HyperMaskError) as error:
        read_labels(path)
    return str(error.value)


def test_mnist_is_what_torchvision_reads_from_the_same_files(tmp_path):
    train, test, checksums = data.load_mnist()
    assert train.images.shape == (60000, 1, 28, 28)
    assert train.images.dtype == np.uint8
    assert train.labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    for name in ("t10k-images-idx3-ubyte", LABELS):
        (tmp_path / name).write_bytes(gzip.decompress((data.BUNDLED_MNIST / f"{name}.gz").read_bytes()))
    images = read_image_file(str(tmp_path / "t10k-images-idx3-ubyte"))
    assert torch.equal(torch.tensor(test.images[:, 0]), images)
    assert torch.equal(torch.tensor(test.labels), read_label_file(str(tmp_path / LABELS)))
    assert checksums[LABELS] == "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"
    assert len(checksums) == 4


def test_mnist_is_read_once_per_process():
    assert data.load_mnist()[0].images is data.load_mnist()[0].images
    assert not data.load_mnist()[0].images.flags.writeable


def test_truncated_file_is_named_with_expected_and_found(tmp_path):
    path = tmp_path / f"{LABELS}.gz"
    whole = (data.BUNDLED_MNIST / path.name).read_bytes()
    path.write_bytes(whole[:2000])
    assert refusal(path).startswith(f"{path}: expected 10008 bytes inside, found a file that breaks off after ")


def test_missing_file(tmp_path):
    path = tmp_path / f"{LABELS}.gz"
    assert refusal(path) == (
        f"{path}: expected a readable file, found no such file or directory; "
        "restore it from the repository or install hypermask again."
    )


def test_file_that_is_no_gzip(tmp_path):
    path = tmp_path / "page.gz"
    path.write_bytes(b"<html>404</html>")
    assert "expected a gzip file, found one that starts with 3c68;" in refusal(path)
    path.write_bytes(b"")
    assert "expected a gzip file, found one that starts with nothing;" in refusal(path)


def test_damaged_gzip(tmp_path):
    path = tmp_path / "damaged.gz"
    whole = bytearray((data.BUNDLED_MNIST / f"{LABELS}.gz").read_bytes())
    whole[-6] ^= 1
    path.write_bytes(whole)
    assert "expected 10008 bytes of intact gzip data inside, found damaged data;" in refusal(path)


def test_foreign_files(tmp_path):
    path = tmp_path / "foreign.gz"
    path.write_bytes(gzip.compress(b"label,pixel\n"))
    assert "expected an IDX file with magic number 00000801, found 6c616265;" in refusal(path)
    write_idx(path, np.zeros(10000), kind=9)
    assert "expected an IDX file with magic number 00000801, found 00000901;" in refusal(path)
    write_idx(path, np.zeros((2, 28, 28)))
    assert "expected an IDX file with magic number 00000801, found 00000803;" in refusal(path)
    write_idx(path, np.zeros(9999))
    assert "expected the shape 10000, found 9999;" in refusal(path)
    write_idx(path, np.zeros(10000))
    assert f"expected SHA-256 {data.MNIST_FILES[LABELS][1]} of what is inside, found " in refusal(path)
    path.write_bytes(gzip.compress(bytes((0, 0, 8, 1)) + struct.pack(">I", 10000) + bytes(7)))
    assert "expected 10008 bytes inside, found 15;" in refusal(path)


def test_one_wrong_file_refuses_mnist(tmp_path):
    with pytest.raises(HyperMaskError, match=r"train-images-idx3-ubyte\.gz: expected a readable file"):
        data.load_mnist(tmp_path)


def test_digits():
    digits, checksums = data.load_digits()
    assert digits.images.shape == (1797, 1, 8, 8)
    assert digits.images.max() == 16
    assert digits.images[0, 0, 0].tolist() == [0, 0, 5, 13, 9, 1, 0, 0]
    assert digits.labels[:10].tolist() == list(range(10))
    assert checksums == {"digits": data.DIGITS_SHA256}


def test_digits_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    data.load_digits.cache_clear()
    with pytest.raises(HyperMaskError, match="which is not installed; run: pip install scikit-learn"):
        data.load_digits()
    status = data.report()[1]
    assert (status.state, status.how_to_get) == ("missing", "pip install scikit-learn")


def test_data_root(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("HYPERMASK_DATA", raising=False)
    assert str(data.data_root()) == "/home/someone/.cache/hypermask"
    monkeypatch.setenv("HYPERMASK_DATA", "~/sets")
    assert str(data.data_root()) == "/home/someone/sets"
    assert data.data_root(tmp_path) == tmp_path
    (tmp_path / "file").touch()
    with pytest.raises(HyperMaskError, match="is a file; expected a folder, so name another one"):
        data.data_root(tmp_path / "file")


def test_a_data_root_in_an_unknown_home_is_one_sentence():
    with pytest.raises(HyperMaskError) as error:
        data.data_root("~no-such-user/sets")
    assert str(error.value) == (
        "the data root ~no-such-user/sets lies in a home folder, which is not known here; name another one with "
        "--data-root or HYPERMASK_DATA."
    )


def test_report_of_an_empty_root(tmp_path):
    root = tmp_path / "data sets"
    found = {status.name: status for status in data.report(root)}
    assert {name: status.state for name, status in found.items()} == {
        "mnist": "bundled",
        "digits": "bundled",
        "cifar-100-python": "missing",
        "tiny-imagenet-200": "missing",
    }
    assert found["mnist"].detail == "60000 + 10000 images, checksums right"
    assert found["mnist"].how_to_get == ""
    assert found["cifar-100-python"].how_to_get == (
        f"mkdir -p '{root}' && curl -fL -o '{root}/cifar-100-python.tar.gz' "
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    )
    assert not root.exists()


def test_report_of_damaged_mnist(monkeypatch, tmp_path):
    monkeypatch.setattr(data, "BUNDLED_MNIST", tmp_path)
    status = data.report(tmp_path)[0]
    assert status.state == "damaged"
    assert "train-images-idx3-ubyte.gz: expected a readable file" in status.detail
    assert status.how_to_get == f"git -C {tmp_path} checkout -- ."


def test_report_of_cifar100(tmp_path, monkeypatch):
    monkeypatch.setattr(cifar100_files, "PER_CLASS", CIFAR100_PER_CLASS)
    folder = write_cifar100(tmp_path)
    status = data.report(tmp_path)[2]
    assert (status.name, status.state, status.path) == ("cifar-100-python", "found", str(folder))
    assert status.detail.startswith(
        f"train and test and meta in {folder} are not the published files by their MD5, yet "
    )
    assert status.how_to_get == ""
    (folder / "test").write_bytes(b"")
    damaged = data.report(tmp_path)[2]
    assert damaged.state == "damaged"
    assert damaged.detail.startswith(f"{folder / 'test'}: expected an intact pickle, found 0 bytes that break off ")
    assert damaged.how_to_get.startswith(f"mkdir -p {tmp_path} && curl ")


def test_report_of_tiny_imagenet(tmp_path, monkeypatch):
    monkeypatch.setattr(tiny_imagenet_files, "PER_CLASS", TINY_PER_CLASS)
    folder = write_tiny_imagenet(tmp_path, classes=4)
    status = data.report(tmp_path)[3]
    assert (status.name, status.state, status.path) == ("tiny-imagenet-200", "found", str(folder))
    assert status.detail.startswith(f"{folder} holds 4 of the 200 classes, each complete; ")
    monkeypatch.setattr(tiny_imagenet_files, "CLASSES", 4)
    assert data.report(tmp_path)[3].detail == "24 + 12 images of 4 classes"
    (folder / "val" / "val_annotations.txt").unlink()
    damaged = data.report(tmp_path)[3]
    assert damaged.state == "damaged"
    assert "val_annotations.txt: expected the file with the validation images' classes, found " in damaged.detail
    assert [path.name for path in tmp_path.iterdir()] == ["tiny-imagenet-200"]


def test_report_of_an_archive_that_is_not_unpacked_yet(tmp_path):
    packed = tmp_path / "tiny-imagenet-200.zip"
    packed.write_bytes(b"PK")
    detail = f"unpacked when it is first needed; it has 2 bytes and the published archive {data.TINY_IMAGENET.size}"
    assert data.report(tmp_path)[3] == data.DataStatus("tiny-imagenet-200", "found", str(packed), detail)
    os.truncate(packed, data.TINY_IMAGENET.size)
    assert data.report(tmp_path)[3] == data.DataStatus(
        "tiny-imagenet-200", "found", str(packed), "unpacked when it is first needed"
    )


def test_render():
    text = data.render(
        [
            data.DataStatus("mnist", "bundled", "/package/mnist", "checksums right"),
            data.DataStatus("cifar-100-python", "missing", "/data/cifar", "no such folder", "curl it"),
        ]
    )
    assert text.splitlines() == [
        "mnist             bundled  /package/mnist",
        "                           checksums right",
        "cifar-100-python  missing  /data/cifar",
        "                           no such folder",
        "                           get it: curl it",
    ]
