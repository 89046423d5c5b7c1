"""What every method has, and what it may not hide."""

import pytest
import torch
from torch import nn

from hypermask import Method
from hypermask.errors import HyperMaskError


class Own(Method):
    def __init__(self, name: str, value: object) -> None:
        super().__init__()
        setattr(self, name, value)

    def helper(self) -> None: ...


@pytest.mark.parametrize("name", ["loss", "logits", "features", "weights", "helper", "train", "capturable"])
@pytest.mark.parametrize(
    "value", [nn.Linear(2, 2), nn.Parameter(torch.zeros(2))], ids=lambda value: type(value).__name__
)
def test_a_module_under_a_name_of_the_class_is_refused(name, value):
    """Python would find what the class has, and never the module."""
    with pytest.raises(HyperMaskError) as caught:
        Own(name, value)
    kind = type(value).__name__
    assert (
        str(caught.value)
        == f"Own has a {name} of its class, which hides the {kind} of that name; give that another name."
    )


@pytest.mark.parametrize("name", ["network", "classifier", "tasks"])
def test_other_names_are_free(name):
    layer = nn.Linear(2, 2)
    own = Own(name, layer)
    assert dict(own.named_modules())[name] is layer
