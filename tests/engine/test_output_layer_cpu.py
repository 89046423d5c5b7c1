"""Where the kernel of a CPU's output layer is compiled and kept, and what happens where that cannot be."""

import pytest
import torch
from torch import nn

from hypermask.engine import output_layer_cpu
from hypermask.engine.errors import UnavailableError
from hypermask.engine.output_layer_cpu import OutputLayer


@pytest.fixture(autouse=True)
def _loaded_anew():
    output_layer_cpu._library.cache_clear()
    yield
    output_layer_cpu._library.cache_clear()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache; the folder of its kernels."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "hypermask" / "kernels"


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Makes a program that notes its arguments and then runs the given line of shell, the compiler; gives its path and
    that of its notes."""

    def make(line):
        program, notes = tmp_path / "a compiler", tmp_path / "notes"
        program.write_text(f'#!/bin/sh\necho "$*" >> "{notes}"\n{line}\n')
        program.chmod(0o755)
        monkeypatch.setenv("CC", f"'{program}'")
        return program, notes

    return make


def layer(width: int) -> OutputLayer:
    torch.manual_seed(width)
    weight, bias = nn.Parameter(torch.randn(70, width)), nn.Parameter(torch.randn(70))
    return OutputLayer(weight, bias, torch.empty(0, width), learning_rate=1e-3)


def check(width: int) -> None:
    """The kernel for this width computes."""
    made, hidden = layer(width), torch.linspace(-1, 1, width)
    torch.testing.assert_close(made.forward(hidden), (made._weight @ hidden + made._bias).detach())


@pytest.mark.parametrize("place", ["a file/cache", "~no-such-user"])
def test_where_nothing_can_be_kept_kernels_are_made_for_this_process(tmp_path, monkeypatch, place):
    (tmp_path / "a file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", place if place.startswith("~") else str(tmp_path / place))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)
    for width in (3, 4, 3):
        check(width)
    assert [path.name for path in tmp_path.iterdir()] == ["a file"]


def test_without_a_place_to_compile_it_says_so(cache, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(UnavailableError, match=r"^its kernel cannot be compiled \(No such file or directory\)$"):
        layer(3)


def test_an_empty_name_of_the_cache_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    check(3)
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    (kept,) = (tmp_path / "home" / ".cache" / "hypermask" / "kernels").iterdir()
    assert kept.suffix == ".so"


def test_the_compiler_may_be_several_words_and_a_kept_kernel_needs_it_no_more(cache, compiler, monkeypatch):
    program, notes = compiler('exec "$@"')
    monkeypatch.setenv("CC", f"'{program}' cc")
    check(3)
    assert len(list(cache.iterdir())) == 1
    compiled = [line for line in notes.read_text().splitlines() if " -c " in line]
    assert [line.split()[0] for line in compiled] == ["cc"]
    output_layer_cpu._library.cache_clear()
    check(3)
    assert [line for line in notes.read_text().splitlines() if " -c " in line] == compiled


def test_a_compiler_that_fails_is_not_started_again(cache, compiler):
    program, notes = compiler('[ "$1" = --version ] || { echo "no such flag" >&2; exit 1; }')
    for _ in range(2):
        with pytest.raises(UnavailableError) as error:
            layer(3)
        assert str(error.value) == f"'{program}' could not compile its kernel (no such flag)"
    assert len(notes.read_text().splitlines()) == 2
    assert not cache.exists()


def test_a_damaged_kernel_is_a_reason_and_no_crash(tmp_path):
    (tmp_path / "kernel.so").write_bytes(b"junk")
    with pytest.raises(UnavailableError, match=r"^its compiled kernel does not load "):
        output_layer_cpu._open(tmp_path / "kernel.so", torch.float32)
