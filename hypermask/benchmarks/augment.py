"""Augmentation and scaling of whole batches, on the device the batch is on."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

# Mean and standard deviation of the three channels of images in [0, 1].
CHANNEL_STATISTICS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "cifar100": ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
}


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


def random_flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """torchvision's `RandomHorizontalFlip()`: every image [B, C, H, W] mirrored with probability one half."""
    mirrored = torch.rand(len(images), generator=generator, device=images.device) < 0.5
    return torch.where(mirrored[:, None, None, None], images.flip(-1), images)


def random_brightness(images: Tensor, strength: float, generator: torch.Generator) -> Tensor:
    """torchvision's `ColorJitter(brightness=strength)`, every image with a factor of its own, uniform over
    1 - strength to 1 + strength.

    images: uint8 [B, C, H, W].
    """
    draws = torch.rand(len(images), generator=generator, device=images.device)
    return brighten(images, 1 + strength * (2 * draws - 1))


def brighten(images: Tensor, factors: Tensor) -> Tensor:
    """Each uint8 image [C, H, W] times its factor, cut off at 255; factors: float32 [B]."""
    return (images * factors[:, None, None, None]).clamp_(0, 255).to(torch.uint8)


def scale(images: Tensor, highest: int = 255) -> Tensor:
    """uint8 0..highest to float32 [0, 1]."""
    return images.float().div_(highest)


def normalise(images: Tensor, mean: float | Tensor, std: float | Tensor) -> Tensor:
    """(images - mean) / std, in place; mean, std: a number, or one per channel as [C, 1, 1]."""
    return images.sub_(mean).div_(std)
