"""The composites, one file each; importing this package registers them all.

* base: what a composite is
* attention: scaled dot products
* cross_entropy: of logits against class indices
* dropout: by seed and draw
* philox: the bits of a draw
* embedding: rows of a table
* experts: the order of rows by expert, and their products
* gelu: exact, or by tanh
* gru_cell: one step of a GRU
* lstm_cell: one step of an LSTM
* layer_norm: normalisation by mean and variance
* rms_norm: normalisation by the root mean square
* max_pool: the largest of each window
* optimizer_update: one step of an optimizer, for one tensor
* sum_of_squares: for norms
"""

from dmc.importer.composites import (
    attention,
    cross_entropy,
    dropout,
    embedding,
    experts,
    gelu,
    gru_cell,
    layer_norm,
    lstm_cell,
    max_pool,
    optimizer_update,
    rms_norm,
    sum_of_squares,
)

__all__ = [
    "attention",
    "cross_entropy",
    "dropout",
    "embedding",
    "experts",
    "gelu",
    "gru_cell",
    "layer_norm",
    "lstm_cell",
    "max_pool",
    "optimizer_update",
    "rms_norm",
    "sum_of_squares",
]
