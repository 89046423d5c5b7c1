"""AutoAugment's CIFAR-10 policy for whole batches on their device; every image draws for itself.

The policy and its magnitudes are read from torchvision (`transforms.v2.AutoAugment`), whose operations on uint8 images
are done here to all images of a batch at once. An image meets one operation in each of the policy's two stages. So each
stage moves pixels, looks levels up in a table and blends, each image with its own parameters, which leave alone
what is not its operation: nothing depends on a value on the host, and a step that augments can be captured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

MAGNITUDES = 10
LEVELS = 256
# Weights of red, green and blue in torchvision's greyscale.
LUMINANCE = (0.2989, 0.587, 0.114)
KINDS = (
    *("Identity", "Move", "Invert", "Solarize", "Posterize", "Brightness", "Contrast", "AutoContrast", "Equalize"),
    *("Color", "Sharpness"),
)
KIND = {name: index for index, name in enumerate(KINDS)}
STILL = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))


@dataclass(frozen=True)
class Operation:
    """One operation as torchvision names it, with its magnitude, signed where it has a sign."""

    name: str
    magnitude: float


class AutoAugment:
    """torchvision's `v2.AutoAugment(AutoAugmentPolicy.CIFAR10)`, nearest pixels, black outside.

    For uint8 images [B, 3, height, width] on `device`. operations: all that can happen to an image in a stage, the last
    one nothing.
    """

    def __init__(self, height: int, width: int, device: torch.device | str) -> None:
        from torchvision.transforms.v2 import AutoAugment as Torchvision
        from torchvision.transforms.v2 import AutoAugmentPolicy

        reference = Torchvision(AutoAugmentPolicy.CIFAR10)
        operations, probabilities = [], []
        for policy in reference._policies:
            for name, probability, level in policy:
                probabilities.append(probability)
                magnitudes_of, signed = reference._AUGMENTATION_SPACE[name]
                magnitudes = magnitudes_of(MAGNITUDES, height, width)
                magnitude = 0.0 if magnitudes is None else float(magnitudes[level])
                operations += [Operation(name, magnitude), Operation(name, -magnitude if signed else magnitude)]
        self.operations = (*operations, Operation("Identity", 0.0))
        with torch.device(device):
            self._probabilities = torch.tensor(probabilities).view(-1, 2)
            self._kind = torch.tensor([KIND.get(o.name, KIND["Move"]) for o in self.operations])
            # Pixel (x, y) of the moved image comes from a x + b y + c, from the image's centre, in halves of its size.
            half = torch.tensor([[width / 2], [height / 2]])
            self._moves = torch.tensor([_source(o, height, width) for o in self.operations]) / half
            factors = [1 + o.magnitude for o in self.operations]
            self._factor = torch.tensor(factors)
            self._complement = torch.tensor([1 - factor for factor in factors])
            self._solarized_from = torch.tensor([255 * o.magnitude for o in self.operations])
            self._kept_bits = torch.tensor([_kept_bits(o) for o in self.operations], dtype=torch.uint8)
            self._levels = torch.arange(LEVELS, dtype=torch.uint8)
            self._stage = torch.arange(2)
            self._x = torch.arange(width).repeat(height) - (width - 1) / 2
            self._y = torch.arange(height).repeat_interleave(width) - (height - 1) / 2
            self._luminance = torch.tensor(LUMINANCE).view(3, 1, 1)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Augmented images, uint8 [B, 3, height, width]."""
        return self.apply(images, self.draw(len(images), generator))

    def draw(self, images: int, generator: torch.Generator) -> Tensor:
        """What happens to each image in each stage: int64 [images, 2], indices into `operations`."""
        draws = {"generator": generator, "device": self._kind.device}
        policy = torch.randint(len(self._probabilities), (images,), **draws)
        happens = torch.rand(images, 2, **draws) <= self._probabilities[policy]
        negative = torch.rand(images, 2, **draws) <= 0.5
        chosen = 2 * (2 * policy[:, None] + self._stage) + negative
        return torch.where(happens, chosen, len(self.operations) - 1)

    def apply(self, images: Tensor, chosen: Tensor) -> Tensor:
        """The chosen operations of both stages, as `draw` gives them."""
        for index in chosen.unbind(1):
            kind = self._kind[index]
            moved = self._move(images, index)
            grey = (moved * self._luminance).sum(1, keepdim=True).floor_()
            table = self._table(moved, grey, kind, index)
            looked_up = table.gather(2, moved.flatten(2).long()).view_as(moved)
            images = self._blend(looked_up, grey, kind, index)
        return images

    def _move(self, images: Tensor, index: Tensor) -> Tensor:
        """Shift, shear or turn each image; pixels from outside are black."""
        a, b, c = self._moves[index].unsqueeze(3).unbind(2)
        source = (a * self._x + b * self._y + c).transpose(1, 2).unflatten(1, images.shape[2:])
        moved = F.grid_sample(images.float(), source, mode="nearest", padding_mode="zeros", align_corners=False)
        return moved.to(torch.uint8)

    def _table(self, images: Tensor, grey: Tensor, kind: Tensor, index: Tensor) -> Tensor:
        """The new level of each level in each channel of each image: uint8 [B, 3, 256]."""
        levels = self._levels
        inverted = 255 - levels
        of_image = {  # [B, 1, 256] or less
            "Invert": inverted,
            "Solarize": torch.where(levels >= _each(self._solarized_from, index), inverted, levels),
            "Posterize": levels & _each(self._kept_bits, index),
            "Brightness": _to_levels(levels * _each(self._factor, index)),
            "Contrast": _to_levels(
                levels * _each(self._factor, index)
                + grey.mean((1, 2, 3)).view(-1, 1, 1) * _each(self._complement, index)
            ),
            "AutoContrast": _autocontrast(images, levels),
            "Equalize": _equalize(images, levels),
        }
        table = levels.expand(*images.shape[:2], LEVELS)
        for name, new in of_image.items():
            table = torch.where((kind == KIND[name])[:, None, None], new, table)
        return table

    def _blend(self, images: Tensor, grey: Tensor, kind: Tensor, index: Tensor) -> Tensor:
        """Colour, between the image and its grey levels, and sharpness, between it and its blurred inside."""
        factor, complement = self._factor[index][:, None, None, None], self._complement[index][:, None, None, None]
        pixels = images.float()
        coloured = pixels * factor + grey * complement
        inside = pixels[..., 1:-1, 1:-1]
        # The blur weighs the middle 5 and each neighbour 1.
        rows = pixels[..., :-2, :] + pixels[..., 1:-1, :] + pixels[..., 2:, :]
        neighbourhood = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
        blurred = ((neighbourhood + 4 * inside) / 13).round_()
        sharpened = pixels + F.pad(blurred - inside, (1, 1, 1, 1)) * complement
        kind = kind[:, None, None, None]
        blended = torch.where(kind == KIND["Color"], coloured, pixels)
        return _to_levels(torch.where(kind == KIND["Sharpness"], sharpened, blended))


def _source(operation: Operation, height: int, width: int) -> tuple[tuple[float, float, float], ...]:
    """Where a pixel of the moved image comes from: x' = a x + b y + c and y' likewise, in pixels from the centre."""
    magnitude = operation.magnitude
    turn = math.radians(magnitude)
    moves = {
        # A shear leaves the image's upper or left edge in its place.
        "ShearX": ((1.0, magnitude, magnitude * height / 2), (0.0, 1.0, 0.0)),
        "ShearY": ((1.0, 0.0, 0.0), (magnitude, 1.0, magnitude * width / 2)),
        "TranslateX": ((1.0, 0.0, -float(int(magnitude))), (0.0, 1.0, 0.0)),
        "TranslateY": ((1.0, 0.0, 0.0), (0.0, 1.0, -float(int(magnitude)))),
        "Rotate": ((math.cos(turn), -math.sin(turn), 0.0), (math.sin(turn), math.cos(turn), 0.0)),
    }
    return moves.get(operation.name, STILL)


def _kept_bits(operation: Operation) -> int:
    bits = int(operation.magnitude) if operation.name == "Posterize" else 8
    return 256 - 2 ** (8 - bits)


def _each(values: Tensor, index: Tensor) -> Tensor:
    """Each image's value, [B, 1, 1]."""
    return values[index][:, None, None]


def _to_levels(values: Tensor) -> Tensor:
    return values.clamp(0, 255).to(torch.uint8)


def _autocontrast(images: Tensor, levels: Tensor) -> Tensor:
    """Levels stretched so that each channel's lowest becomes 0 and its highest 255; flat channels stay."""
    pixels = images.flatten(2).float()
    lowest, highest = pixels.amin(2, keepdim=True), pixels.amax(2, keepdim=True)
    flat = highest == lowest
    step = torch.where(flat, 1.0, (highest - lowest) * (1 / 255))
    return _to_levels((levels - torch.where(flat, 0.0, lowest)) / step)


def _equalize(images: Tensor, levels: Tensor) -> Tensor:
    """Pillow's equalisation: level k becomes (pixels below k + step // 2) // step, where step is a 255th of the pixels
    that are not of the channel's highest level; channels with a step of 0 stay.
    """
    pixels = images.flatten(2).long()
    counts = pixels.new_zeros(*pixels.shape[:2], LEVELS)
    counts.scatter_add_(2, pixels, torch.ones_like(pixels))
    below = counts.cumsum(2) - counts
    highest = pixels.amax(2, keepdim=True)
    step = below.gather(2, highest) // 255
    equalized = ((below + step // 2) // step.clamp(min=1)).clamp(max=255).to(torch.uint8)
    return torch.where(step > 0, equalized, levels)
