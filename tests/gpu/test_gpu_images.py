"""Augmentation and batch statistics on a CUDA device."""

import pytest
import torch

from hypermask import experiments
from hypermask.benchmarks.autoaugment import AutoAugment
from hypermask.benchmarks.split_cifar100 import fecam_augmentation
from hypermask.model import HyperMask
from hypermask.targets import ResNet18
from hypermask.training import run_experiment


def images(count=64):
    return torch.randint(256, (count, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def test_autoaugment_gives_what_it_gives_on_the_cpu():
    on_cpu, on_gpu = AutoAugment(32, 32, "cpu"), AutoAugment(32, 32, "cuda")
    chosen = on_cpu.draw(64, torch.Generator().manual_seed(2))
    expected = on_cpu.apply(images(), chosen)
    found = on_gpu.apply(images().cuda(), chosen.cuda()).cpu()
    assert ((found.int() - expected.int()).abs() > 1).float().mean() < 0.01


def test_augmentation_can_be_captured_and_draws_anew_at_every_replay():
    augment, batch = fecam_augmentation("cuda"), images().cuda()
    draw = torch.Generator("cuda").manual_seed(3)
    expected = [augment(batch, draw) for _ in range(3)]
    draw = torch.Generator("cuda").manual_seed(3)
    assert torch.equal(augment(batch, draw), expected[0])
    graph = torch.cuda.CUDAGraph()
    if torch.__version__ < (2, 14):
        graph.register_generator_state(draw)
    with torch.cuda.graph(graph):
        augmented = augment(batch, draw)
    for wanted in expected[1:]:
        graph.replay()
        assert torch.equal(augmented, wanted)


@torch.no_grad()
def test_with_statistics_per_task_a_prediction_does_not_depend_on_its_batch(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    torch.manual_seed(0)
    model = HyperMask(
        ResNet18(3, (4, 4, 6, 8, 8), 2), tasks=1, embedding_size=4, hypernetwork_hidden=(6,), batch_stats="task"
    ).to("cuda")
    inputs = images(120).float().cuda() / 255
    model.collect_statistics(0, lambda: inputs[:80], torch.zeros(80))
    together = model.logits(inputs, 0)
    for size in (1, 37):
        parts = torch.cat([model.logits(part, 0) for part in inputs.split(size)])
        torch.testing.assert_close(parts, together, rtol=1e-3, atol=1e-4)


def test_convolutions_trained_twice_give_the_same_numbers(tmp_path):
    small = experiments.smoke("split_cifar100/hypermask-t")
    first, second = (run_experiment(small, 1, root=tmp_path / name, device="cuda").payload for name in ("a", "b"))
    assert first["accuracy"] == second["accuracy"]
    assert first["target_distance"] == second["target_distance"]


@pytest.mark.parametrize("batch_stats", ["batch", "task"])
def test_the_stand_in_of_split_cifar100_trains(tmp_path, batch_stats):
    small = experiments.smoke("split_cifar100/hypermask-t").override([f"batch_stats={batch_stats}"])
    record = run_experiment(small, 1, root=tmp_path, device="cuda")
    assert (record.finished, record.payload["engine"]) == (True, "fused")
    # The target's weights move from task to task, as steps that come from a graph have to move them.
    assert all(distance[0, 1] > 0 for distance in record.target_distance.values())
