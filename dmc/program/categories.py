"""What memory holds: the categories of `Buffer`, by the names under which reports show them."""

from __future__ import annotations

# In the order in which they are shown.
CATEGORIES = {
    "parameter": "weights",
    "gradient": "gradients",
    "optimizer": "optimizer state",
    "state": "other state",
    "input": "inputs",
    "output": "outputs",
    "activation": "activations",
    "communication": "communication buffers",
    "scratch": "workspace",
}
