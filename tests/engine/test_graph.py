"""When a step is captured, on which stream, and what happens if it cannot be: with a stand-in for CUDA's calls."""

import contextlib
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from small_methods import FixedBatches

from hypermask import HyperMask, TrainingConfig
from hypermask.engine import graph
from hypermask.engine.fused import FusedEngine
from hypermask.engine.graph import WARM_UP, CapturedStep
from hypermask.targets import MLP

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

    real = torch.cuda

    def __init__(self):
        self.default, self.local = Stream(), threading.local()
        self.captured_on, self.registered, self.replays = [], [], 0
        self.fails = False
        self.default_generators = {None: Generator()}

    def __getattr__(self, name):
        return Stream if name == "Stream" else getattr(self.real, name)

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
    graph._BESIDE.__dict__.clear()
    yield fake
    graph._BESIDE.__dict__.clear()


def test_a_few_steps_run_and_the_next_one_is_captured(cuda):
    ran = []
    captured = CapturedStep(lambda iteration: ran.append(iteration.item()) or torch.zeros(()), CPU, [])
    for _ in range(10):
        captured()
    assert ran == [*range(WARM_UP), WARM_UP], "the last one is the capture"
    assert cuda.replays == 10 - WARM_UP


def test_nothing_is_collected_while_a_step_is_captured(cuda):
    """An earlier graph in a cycle, destroyed then, would break the capture; so it goes before."""
    collects = []

    class Circle:
        pass

    earlier = Circle()
    earlier.itself = earlier
    gone = weakref.ref(earlier)
    del earlier
    captured = CapturedStep(lambda _: collects.append(gc.isenabled()) or torch.zeros(()), CPU, [])
    assert gone() is None
    for _ in range(WARM_UP + 1):
        captured()
    assert collects == [True] * WARM_UP + [False]
    assert gc.isenabled()


def test_one_thread_captures_at_a_time(cuda):
    held = []
    captured = CapturedStep(lambda _: held.append(graph.ONE_AT_A_TIME.locked()) or torch.zeros(()), CPU, [])
    for _ in range(WARM_UP + 1):
        captured()
    assert held == [False] * WARM_UP + [True]
    assert not graph.ONE_AT_A_TIME.locked()


def test_all_tasks_are_captured_on_one_stream(cuda):
    for _ in range(3):
        captured = CapturedStep(lambda iteration: torch.zeros(()), CPU, [])
        for _ in range(WARM_UP + 1):
            captured()
    assert len(set(cuda.captured_on)) == 1
    assert cuda.captured_on[0] is not cuda.default, "nothing can be captured there"
    assert cuda.current_stream() is cuda.default


def test_threads_without_streams_of_their_own_capture_on_different_ones(cuda):
    with ThreadPoolExecutor(2) as pool:
        both = threading.Barrier(2)
        streams = list(pool.map(lambda _: both.wait() >= 0 and graph._stream(CPU), range(2)))
    assert streams[0] is not streams[1]


def test_an_engine_with_a_captured_step_is_gone_with_its_task(cuda):
    method = HyperMask(MLP(5, (3,), 2), tasks=1, embedding_size=2, hypernetwork_hidden=(3,))
    batches = FixedBatches(torch.zeros(1, 4, 5), torch.tensor([[0, 1, 0, 1]]))
    # Frames of imports that are made at the first use hold the first engine of a process until they are collected.
    FusedEngine(method, 0, TrainingConfig(iterations=1), 1, batches).step(0)
    gc.collect()
    gc.disable()
    try:
        engine = FusedEngine(method, 0, TrainingConfig(iterations=1), 1, batches)
        # As on a GPU.
        engine._captured = CapturedStep(lambda _, once=engine._once: once(0), CPU, [])
        for _ in range(WARM_UP + 2):
            engine.step(0)
        gone = [weakref.ref(engine), weakref.ref(engine._captured), weakref.ref(engine._step)]
        del engine
        assert [each() for each in gone] == [None] * 3
    finally:
        gc.enable()


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
