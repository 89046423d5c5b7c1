"""Augmentation and scaling of whole batches, on the device the batch is on."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def random_crop(images: Tensor, padding: int, generator: torch.Generator) -> Tensor:
    """torchvision's `RandomCrop(size, padding)`, every image with offsets of its own.

    images: uint8 [B, C, H, W]; the result has the same shape.  The 2 B offsets, uniform over 0..2 * padding,
    are drawn by `generator`, which is on the images' device.
    """
    offsets = torch.randint(2 * padding + 1, (2, len(images)), generator=generator, device=images.device)
    return crop(images, offsets, padding)


def crop(images: Tensor, offsets: Tensor, padding: int) -> Tensor:
    """Each image [C, H, W] padded by `padding` zeros on each side, then cut back to [C, H, W].

    offsets: int64 [2, B], the first row and first column that is kept of each padded image.
    """
    channels, height, width = images.shape[1:]
    padded = F.pad(images, (padding,) * 4)
    rows = offsets[0, :, None] + torch.arange(height, device=images.device)
    columns = offsets[1, :, None] + torch.arange(width, device=images.device)
    # One gather over flattened pixels serves every image, whatever its offset.
    pixels = (rows[:, :, None] * padded.shape[-1] + columns[:, None, :]).flatten(1)
    gathered = padded.flatten(2).gather(2, pixels[:, None, :].expand(-1, channels, -1))
    return gathered.view(images.shape)


def scale(images: Tensor, highest: int = 255) -> Tensor:
    """uint8 0..highest to float32 [0, 1]."""
    return images.float().div_(highest)


def normalise(images: Tensor, mean: float, std: float) -> Tensor:
    """(images - mean) / std, in place."""
    return images.sub_(mean).div_(std)
