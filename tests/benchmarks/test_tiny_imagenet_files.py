import os

import numpy as np
import pytest
from layouts import TINY_PER_CLASS, write_jpeg, write_tiny_imagenet
from PIL import Image

from hypermask.benchmarks import tiny_imagenet_files
from hypermask.errors import HyperMaskError


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(tiny_imagenet_files, "PER_CLASS", TINY_PER_CLASS)


@pytest.fixture
def folder(tmp_path):
    return write_tiny_imagenet(tmp_path, classes=4)


def read(folder):
    return tiny_imagenet_files.read(tiny_imagenet_files.list_images(folder))


def refusal(folder):
    with pytest.raises(HyperMaskError) as error:
        read(folder)
    text = str(error.value)
    assert "\n" not in text
    return text


def first_image(folder):
    return folder / "train" / "n00001000" / "images" / "n00001000_8.JPEG"


def decoded_files(root):
    return sorted(path for path in root.glob("*-decoded-*") if path.is_file())


@pytest.mark.parametrize("portion", [5, 36, 1000])
def test_images_class_by_class_in_the_order_of_their_numbers(folder, monkeypatch, portion):
    monkeypatch.setattr(tiny_imagenet_files, "PORTION", portion)
    found = read(folder)
    assert (found.train.images.shape, found.train.images.dtype) == ((24, 3, 64, 64), np.uint8)
    assert found.test.images.shape == (12, 3, 64, 64)
    assert found.train.labels.tolist() == [0] * 6 + [1] * 6 + [2] * 6 + [3] * 6
    assert found.test.labels.tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert found.class_names[1] == "name of n00001007, other name"
    train = [f"train/n00001007/images/n00001007_{number}.JPEG" for number in (8, 9, 10, 11, 12, 13)]
    val = [f"val/images/val_{number}.JPEG" for number in (1, 5, 9)]
    for names, images in ((train, found.train.images[6:12]), (val, found.test.images[3:6])):
        for name, image in zip(names, images, strict=True):
            assert np.array_equal(image.transpose(1, 2, 0), np.asarray(Image.open(folder / name)))


def test_both_layouts_give_the_same(folder, tmp_path):
    published = read(folder)
    other = read(write_tiny_imagenet(tmp_path / "other", classes=4, class_folders=True))
    assert np.array_equal(other.train.images, published.train.images)
    assert np.array_equal(other.test.images, published.test.images)
    assert other.checksums == published.checksums
    assert other.class_names[1] == "n00001007"


def test_decoded_once_into_a_memory_map(folder, tmp_path):
    found = read(folder)
    (cached,) = decoded_files(tmp_path)
    assert cached.name == f"tiny-imagenet-200-decoded-{found.checksums['tiny-imagenet-200'][:16]}.npy"
    assert isinstance(found.train.images.base, np.memmap) or isinstance(found.train.images, np.memmap)
    assert np.load(cached).shape == (36, 3, 64, 64)
    before = cached.stat().st_mtime_ns
    again = read(folder)
    assert cached.stat().st_mtime_ns == before
    assert np.array_equal(again.train.images, found.train.images)


def test_other_content_is_decoded_anew(folder, tmp_path):
    before = read(folder)
    write_jpeg(first_image(folder), np.full((8, 8, 3), 200, np.uint8))
    after = read(folder)
    assert after.checksums != before.checksums
    assert len(decoded_files(tmp_path)) == 2
    assert abs(after.train.images[0].astype(int) - 200).max() <= 2
    assert np.array_equal(after.train.images[1:], before.train.images[1:])


def test_the_images_are_read_again_only_where_a_file_has_changed(folder, tmp_path, monkeypatch):
    path = first_image(folder)
    before, content = path.stat(), path.read_bytes()
    found = read(folder).checksums
    # The same name, size and time: nothing tells that it was changed, so its bytes do not count.
    # Another density in the header: another file with the same pixels.
    path.write_bytes(content[:15] + b"\7" + content[16:])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read(folder).checksums == found
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert read(folder).checksums != found
    path.write_bytes(content)
    assert read(folder).checksums == found


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"state": 1, "sha256": 2}'])
def test_a_foreign_file_in_the_checksums_place_is_replaced(folder, tmp_path, content):
    found = read(folder).checksums
    kept = tmp_path / "tiny-imagenet-200-checksum.json"
    whole = kept.read_text()
    kept.write_text(content)
    assert read(folder).checksums == found
    assert kept.read_text() == whole


def test_long_work_is_announced(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("HYPERMASK_PROGRESS")
    read(folder)
    (cached,) = decoded_files(tmp_path)
    assert capsys.readouterr().err.splitlines() == [
        f"reading the 36 images in {folder} for their checksum",
        f"decoding the 36 images in {folder} into {cached.name}, once",
    ]
    read(folder)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY half", None])
def test_a_damaged_cache_is_written_again(folder, tmp_path, content):
    whole = read(folder).train.images.copy()
    (cached,) = decoded_files(tmp_path)
    cached.write_bytes(cached.read_bytes()[:-1] if content is None else content)
    assert np.array_equal(read(folder).train.images, whole)
    assert decoded_files(tmp_path) == [cached]


def test_a_subset_says_so(folder, monkeypatch):
    assert read(folder).remark == (
        f"{folder} holds 4 of the 200 classes, each complete; class i is the i-th of those, and the record names the "
        "checksum of their images."
    )
    monkeypatch.setattr(tiny_imagenet_files, "CLASSES", 4)
    assert read(folder).remark == ""


def test_a_folder_cut_down_to_fewer_classes(folder):
    (folder / "wnids.txt").write_text("n00001007\nn00001000\n")
    found = read(folder)
    assert found.class_names == ("name of n00001000, other name", "name of n00001007, other name")
    assert len(found.test.labels) == 6


def test_grey_images_become_three_equal_channels(folder):
    write_jpeg(first_image(folder), np.arange(64, dtype=np.uint8).reshape(8, 8))
    image = read(folder).train.images[0]
    assert np.array_equal(image[0], image[1])
    assert np.array_equal(image[0], image[2])


def test_missing_annotations(folder):
    annotations = folder / "val" / "val_annotations.txt"
    annotations.unlink()
    assert refusal(folder) == (
        f"{annotations}: expected the file with the validation images' classes, found no such file or directory; "
        "delete the folder tiny-imagenet-200, and the published tiny-imagenet-200.zip is unpacked or downloaded again."
    )


def test_an_image_without_annotation(folder):
    annotations = folder / "val" / "val_annotations.txt"
    lines = annotations.read_text().splitlines()
    annotations.write_text("\n".join(line for line in lines if not line.startswith("val_5.JPEG")))
    assert f"expected a line for every image in {folder / 'val' / 'images'}, found none for val_5.JPEG;" in refusal(
        folder
    )


def test_missing_images(folder):
    first_image(folder).unlink()
    assert f"{folder / 'train'}: expected 6 images of class n00001000, found 5;" in refusal(folder)


def test_missing_validation_images(folder):
    (folder / "val" / "images" / "val_5.JPEG").unlink()
    assert f"{folder / 'val'}: expected 3 images of class n00001007, found 2;" in refusal(folder)


def test_a_listed_class_without_folder(folder):
    (folder / "wnids.txt").write_text("n00001000\nn99999999\n")
    assert f"{folder / 'train'}: expected 6 images of class n99999999, found 0;" in refusal(folder)


def test_an_empty_folder(tmp_path):
    assert f"{tmp_path / 'train'}: expected a folder for each class, found none;" in refusal(tmp_path)


def test_truncated_images_leave_no_cache(folder, tmp_path):
    path = first_image(folder)
    path.write_bytes(path.read_bytes()[:400])
    assert f"{path}: expected an intact JPEG image, found 400 bytes that are none;" in refusal(folder)
    assert decoded_files(tmp_path) == []


def test_images_of_another_size(folder):
    write_jpeg(first_image(folder), np.zeros((8, 8, 3), np.uint8), size=32)
    assert f"{first_image(folder)}: expected 64 x 64 pixels, found 32 x 32;" in refusal(folder)


def test_where_nothing_can_be_written(folder, tmp_path):
    found = read(folder)
    (cached,) = decoded_files(tmp_path)
    cached.unlink()
    cached.mkdir()
    assert refusal(folder) == (
        f"{cached} cannot be written (is a directory); the decoded images need 0 MB there, so make room or choose "
        "another data root."
    )
    kept = f"{folder.name}-checksum.json"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([folder.name, cached.name, kept])
    assert found.train.images.shape == (24, 3, 64, 64)
