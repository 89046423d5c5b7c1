import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
import torch

from hypermask import __version__, device, revision
from hypermask.errors import HyperMaskError


def test_auto_is_a_gpu_where_there_is_one():
    assert device.resolve("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert device.resolve() == device.resolve("auto")


@pytest.mark.parametrize("name", ["auto", "cuda"])
def test_a_gpu_has_its_number_as_tensors_name_it(name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert device.resolve(name) == torch.device("cuda:1")
    assert device.resolve("cuda:0") == torch.device("cuda:0")


def test_a_device_is_made_the_current_one(monkeypatch):
    made = []
    monkeypatch.setattr(torch._C, "_cuda_setDevice", made.append, raising=False)
    for name in ("cpu", "cuda", "cuda:1"):
        # PyTorch refuses one without its number.
        device.make_current(torch.device(name))
    assert made == [1]


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8"
        ),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"),
        MemoryError("Unable to allocate 8 GiB"),
        MemoryError(),
    ],
)
def test_memory_that_runs_out_is_one_sentence(error):
    with pytest.raises(HyperMaskError) as caught, device.memory_told("a run of a/b"):
        raise error
    assert str(caught.value).startswith("a run of a/b needs more memory than there is here (")
    assert str(error)[:20] in str(caught.value)
    with pytest.raises(RuntimeError, match="something else"), device.memory_told("a run of a/b"):
        raise RuntimeError("something else")


def test_cpu_is_always_there():
    assert device.resolve("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["tpu", "gpu", "mps", "cuda:x", "", "cpu cuda", "meta"])
def test_an_unknown_device_is_one_sentence(name):
    with pytest.raises(HyperMaskError) as caught:
        device.resolve(name)
    assert str(caught.value) == f"device {name!r} is not known; expected auto, cpu, cuda or cuda:N."


def test_a_gpu_that_is_not_here_is_one_sentence():
    count = torch.cuda.device_count()
    with pytest.raises(HyperMaskError) as caught:
        device.resolve(f"cuda:{count}")
    assert str(caught.value) == (
        f"device 'cuda:{count}' is not here: this machine has {count} CUDA devices; use auto or cpu."
    )


def test_the_environment_of_a_record():
    found = device.environment(torch.device("cpu"))
    revision, dirty = found.pop("revision"), found.pop("dirty")
    name = found.pop("device_name")
    assert found == {
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": found["platform"],
        "device": "cpu",
        "threads": torch.get_num_threads(),
        "variables": {name: value for name, value in os.environ.items() if name.startswith(device.VARIABLES)},
        "version": __version__,
    }
    assert len(found["platform"].split()) == 2
    assert name.strip()
    assert (revision is None) == (dirty is None)
    assert revision is None or re.fullmatch("[0-9a-f]{40}", revision)


X86 = "processor\t: 0\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd0c\n"


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        (X86, "AMD EPYC, family 26 model 2"),
        (ARM, "aarch64, implementer 0x41 part 0xd0c"),
        (ARM + "model name\t: ARMv8 Processor rev 1\n", "ARMv8 Processor rev 1, implementer 0x41 part 0xd0c"),
        ("processor\t: 0\nisa\t: rv64imafdc\n", "aarch64"),
    ],
)
def test_processors_of_different_models_have_different_names(cpuinfo, name, tmp_path, monkeypatch):
    monkeypatch.setattr(device.platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(device, "CPUINFO", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    assert device.cpu_name() == name


def test_on_macos_the_system_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(device, "CPUINFO", tmp_path / "none")
    monkeypatch.setattr(device.platform, "processor", lambda: "arm")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert device.cpu_name() == "arm"
    sysctl = tmp_path / "sysctl"
    sysctl.write_text('#!/bin/sh\n[ "$*" = "-n machdep.cpu.brand_string" ] && echo "Apple M2"\n')
    sysctl.chmod(0o755)
    assert device.cpu_name() == "Apple M2"


def test_variables_that_change_speed_or_rounding_are_told(monkeypatch):
    for name in list(os.environ):
        if name.startswith(device.VARIABLES):
            monkeypatch.delenv(name)
    assert device.environment(torch.device("cpu"))["variables"] == {}
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("MALLOC_MMAP_MAX_", "0")
    monkeypatch.setenv("OTHER_MALLOC_MMAP_MAX_", "0")
    assert device.environment(torch.device("cpu"))["variables"] == {"MALLOC_MMAP_MAX_": "0", "OMP_NUM_THREADS": "2"}


def test_no_path_of_this_machine_is_in_the_environment():
    text = repr(device.environment(torch.device("cpu")))
    assert str(Path.home()) not in text
    assert str(Path(device.__file__).parent) not in text


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    """A git repository with a copy of the module's place in it."""
    (tmp_path / "hypermask").mkdir()
    (tmp_path / "hypermask" / "device.py").write_text("# here\n")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=Test", "-c", "user.email=test@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *command], check=True)
    monkeypatch.setattr(device, "revision", SimpleNamespace(state=lambda: revision.state(tmp_path)))
    return tmp_path


def test_the_code_revision_and_whether_the_tree_was_changed(checkout):
    head = subprocess.run(["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    found = device.environment(torch.device("cpu"))
    assert (found["revision"], found["dirty"]) == (head.stdout.strip(), False)
    # What runs leave in a checkout is no change of what runs.
    (checkout / "records").mkdir()
    (checkout / "records" / "bench.json").touch()
    (checkout / "out.tar").touch()
    assert device.environment(torch.device("cpu"))["dirty"] is False
    (checkout / "hypermask" / "device.py").write_text("# changed\n")
    assert device.environment(torch.device("cpu"))["dirty"] is True
    (checkout / "hypermask" / "device.py").write_text("# here\n")
    (checkout / "hypermask" / "new.py").touch()
    assert device.environment(torch.device("cpu"))["dirty"] is True


def test_outside_a_checkout_there_is_no_revision(checkout):
    (checkout / ".git").rename(checkout / "elsewhere")
    found = device.environment(torch.device("cpu"))
    assert (found["revision"], found["dirty"]) == (None, None)
    with pytest.raises(HyperMaskError, match="is no checkout that git can read; note the revision where"):
        revision.note(checkout)


def test_a_copy_without_git_has_the_revision_that_was_noted(checkout):
    head = revision.state(checkout)[0]
    module = checkout / "hypermask" / "device.py"
    module.write_text("# changed\n")
    with pytest.raises(HyperMaskError, match="has changes that no revision tells; commit them, then note it again"):
        revision.note(checkout)
    module.write_text("# here\n")
    assert revision.note(checkout) == checkout / revision.NOTE
    (checkout / ".git").rename(checkout / "elsewhere")
    assert revision.state(checkout) == (head, False)
    (checkout / "hypermask" / "__pycache__").mkdir()
    (checkout / "hypermask" / "__pycache__" / "device.pyc").touch()
    assert revision.state(checkout) == (head, False)
    module.write_text("# changed\n")
    assert revision.state(checkout) == (head, True)
    module.write_text("# here\n")
    (checkout / "hypermask" / "more.py").touch()
    assert revision.state(checkout) == (head, True)
    (checkout / revision.NOTE).write_text("{")
    assert revision.state(checkout) == (None, None)
