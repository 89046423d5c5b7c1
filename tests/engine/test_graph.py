"""When a step is captured, on which stream, and what happens if it cannot be: with a stand-in for CUDA's calls."""

import contextlib
import threading

import pytest
import torch

from hypermask.engine import graph
from hypermask.engine.graph import WARM_UP, CapturedStep

CPU = torch.device("cpu")


class Generator(torch.Generator):
    """On the CPU, with what only CUDA's generators can do."""

    def graphsafe_set_state(self, other):
        self.set_state(other.get_state())


class Stream:
    def __init__(self, device=CPU):
        self.device = device

    def wait_stream(self, other):
        assert isinstance(other, Stream)


class Cuda:
    """In place of `torch.cuda`: a current stream for each thread, and graphs that run what was captured again."""

    def __init__(self):
        self.default, self.local = Stream(), threading.local()
        self.captured_on, self.registered, self.replays = [], [], 0
        self.fails = False
        self.default_generators = {None: Generator()}

    def __getattr__(self, name):
        if name == "Stream":
            return Stream
        raise AttributeError(name)

    def current_stream(self, device=None):
        return getattr(self.local, "stream", self.default)

    def default_stream(self, device=None):
        return self.default

    def set_stream(self, stream):
        self.local.stream = stream

    @contextlib.contextmanager
    def stream(self, stream):
        before = self.current_stream()
        self.set_stream(stream)
        yield
        self.set_stream(before)

    def CUDAGraph(self):  # noqa: N802 (PyTorch's name)
        return Graph(self)

    @contextlib.contextmanager
    def graph(self, graph, stream, capture_error_mode):
        assert capture_error_mode == "thread_local"
        self.captured_on.append(stream)
        self.set_stream(stream)
        yield
        if self.fails:
            # As PyTorch leaves it: on the stream of the capture.
            raise RuntimeError("operation not permitted when stream is capturing")
        self.set_stream(self.default)


class Graph:
    def __init__(self, cuda):
        self._cuda = cuda

    def register_generator_state(self, generator):
        self._cuda.registered.append(generator)

    def replay(self):
        self._cuda.replays += 1


@pytest.fixture
def cuda(monkeypatch):
    fake = Cuda()
    monkeypatch.setattr(torch, "cuda", fake)
    graph._side_stream.cache_clear()
    yield fake
    graph._side_stream.cache_clear()


def test_a_few_steps_run_and_the_next_one_is_captured(cuda):
    ran = []
    captured = CapturedStep(lambda iteration: ran.append(iteration.item()) or torch.zeros(()), CPU, [])
    for _ in range(10):
        captured()
    assert ran == [*range(WARM_UP), WARM_UP], "the last one is the capture"
    assert cuda.replays == 10 - WARM_UP


def test_all_tasks_are_captured_on_one_stream(cuda):
    for _ in range(3):
        captured = CapturedStep(lambda iteration: torch.zeros(()), CPU, [])
        for _ in range(WARM_UP + 1):
            captured()
    assert len(set(cuda.captured_on)) == 1
    assert cuda.captured_on[0] is not cuda.default, "nothing can be captured there"
    assert cuda.current_stream() is cuda.default


def test_a_thread_with_a_stream_of_its_own_captures_there(cuda):
    own = Stream()
    with cuda.stream(own):
        captured = CapturedStep(lambda iteration: torch.zeros(()), CPU, [])
        for _ in range(WARM_UP + 1):
            captured()
    assert cuda.captured_on == [own]


def test_what_cannot_be_captured_goes_on_without_and_draws_as_before(cuda):
    cuda.fails = True
    draw = Generator()
    draw.manual_seed(1)
    drawn = []

    def step(iteration):
        drawn.append(torch.rand(1, generator=draw).item())
        return torch.zeros(())

    captured = CapturedStep(step, CPU, [draw])
    with pytest.warns(UserWarning, match=r"runs without a CUDA graph \(operation not permitted"):
        for _ in range(WARM_UP + 3):
            captured()
    assert cuda.replays == 0
    assert cuda.current_stream() is cuda.default
    again = torch.Generator().manual_seed(1)
    expected = [torch.rand(1, generator=again).item() for _ in range(WARM_UP + 3)]
    # The capture itself drew, and its draws are taken back.
    assert drawn[:WARM_UP] + drawn[WARM_UP + 1 :] == expected


@pytest.mark.parametrize(
    ("version", "registered"), [("2.11.0+cu130", 1), ("2.13.1", 1), ("2.14.1+cu130", 0), ("3.0", 0)]
)
def test_generators_are_registered_where_pytorch_needs_it(cuda, monkeypatch, version, registered):
    monkeypatch.setattr(torch, "__version__", torch.torch_version.TorchVersion(version))
    captured = CapturedStep(lambda iteration: torch.zeros(()), CPU, [torch.Generator()])
    for _ in range(WARM_UP + 1):
        captured()
    assert len(cuda.registered) == registered
