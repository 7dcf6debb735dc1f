"""The composites, one file each; importing this package registers them all."""

from dmc.importer.composites import (
    attention,
    cross_entropy,
    dropout,
    embedding,
    gelu,
    gru_cell,
    layer_norm,
    lstm_cell,
    max_pool2d,
    optimizer_update,
    rms_norm,
    sum_of_squares,
)

__all__ = [
    "attention",
    "cross_entropy",
    "dropout",
    "embedding",
    "gelu",
    "gru_cell",
    "layer_norm",
    "lstm_cell",
    "max_pool2d",
    "optimizer_update",
    "rms_norm",
    "sum_of_squares",
]
