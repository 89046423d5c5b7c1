"""One function per kind of figure; the style in one place (`styling`)."""

from hypermask.plots.curves import mean_accuracy, settings, single_models
from hypermask.plots.data import matrix_data, mean_accuracy_data, settings_data
from hypermask.plots.images import accuracy_matrices, mask_images
from hypermask.plots.panel import Panel, model_panels, panels
from hypermask.plots.whiskers import methods
from hypermask.plots.words import describe, describe_settings

__all__ = [
    "Panel",
    "accuracy_matrices",
    "describe",
    "describe_settings",
    "mask_images",
    "matrix_data",
    "mean_accuracy",
    "mean_accuracy_data",
    "methods",
    "model_panels",
    "panels",
    "settings",
    "settings_data",
    "single_models",
]
