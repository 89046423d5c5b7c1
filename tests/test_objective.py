import pytest
import torch
from torch import nn

from hypermask import objective
from hypermask.model import HyperMask
from hypermask.targets import MLP


def perturbed(model: nn.Module, size: float) -> None:
    """Move every parameter by a seeded normal draw."""
    draw = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(size * torch.randn(parameter.shape, generator=draw, dtype=parameter.dtype))


def test_l_current_is_the_mean_cross_entropy():
    logits = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    labels = torch.tensor([1, 0])
    by_hand = (torch.log(torch.tensor(2.0)) + torch.log1p(torch.tensor(-2.0).exp())) / 2
    assert objective.l_current(logits, labels).item() == pytest.approx(by_hand.item())


def test_l_output_is_the_mean_over_tasks_of_the_squared_distance():
    now = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]])
    before = torch.tensor([[0.0, 2.0, 1.0], [0.0, 3.0, 1.0]])
    assert objective.l_output(now, before).item() == (1 + 4 + 9) / 2
    assert objective.l_output(now[:1], before[:1]).item() == 5.0


def test_the_two_forms_of_betas_weight():
    assert [objective.output_weight(0.5, n, "paper") for n in (1, 2, 4)] == [0.5, 0.5, 0.5]
    assert [objective.output_weight(0.5, n, "released-code") for n in (1, 2, 4)] == [0.5, 0.25, 0.125]


def test_l_target_by_hand_masked_and_plain():
    theta = [torch.tensor([[1.0, -2.0]]), torch.tensor([3.0])]
    before = [torch.tensor([[0.5, 0.0]]), torch.tensor([7.0])]
    masks = [torch.tensor([[0.5, 0.25]]), torch.tensor([0.0])]
    assert objective.l_target(theta, before, None).item() == 0.5 + 2.0 + 4.0
    assert objective.l_target(theta, before, masks).item() == 0.25 + 0.5 + 0.0


def test_the_mask_in_l_target_is_not_detached():
    theta = torch.tensor([1.0, -2.0], requires_grad=True)
    mask = torch.tensor([0.5, 0.25], requires_grad=True)
    objective.l_target([theta], [torch.tensor([0.5, 0.0])], [mask]).backward()
    assert mask.grad.tolist() == [0.5, 2.0]
    assert theta.grad.tolist() == [0.5, -0.25]


@pytest.mark.parametrize("previous", [1, 2, 3])
def test_l_output_is_hypnettorchs_regulariser_in_value_and_gradient(previous):
    from hypnettorch.utils import hnet_regularizer

    model = HyperMask(MLP(6, (5, 4), 3), tasks=4, embedding_size=7, hypernetwork_hidden=(8, 6)).double()
    hypernetwork = model.hypernetwork
    targets = hnet_regularizer.get_current_targets(previous, hypernetwork)
    stored = torch.stack([torch.cat([part.flatten() for part in target]) for target in targets])
    torch.testing.assert_close(stored, model.outputs(range(previous)).detach(), rtol=1e-13, atol=0)
    perturbed(hypernetwork, 0.1)

    theirs = hnet_regularizer.calc_fix_target_reg(hypernetwork, previous, targets=targets)
    ours = objective.l_output(model.outputs(range(previous)), stored)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-12)
    assert ours.item() > 1e-3

    parameters = [*hypernetwork.unconditional_params, *hypernetwork.conditional_params[:previous]]
    expected = torch.autograd.grad(theirs, parameters)
    found = torch.autograd.grad(ours, parameters)
    for mine, reference in zip(found, expected, strict=True):
        assert reference.abs().max() > 0
        torch.testing.assert_close(mine, reference, rtol=1e-10, atol=1e-12)
