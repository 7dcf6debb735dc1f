"""Buffers on the device meta whose numbers their modules compute, such as the frequencies of rotary embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from dmc.importer.torch_internals import buffers_of


def computed(modules: Mapping[str, nn.Module], path: str, name: str) -> Tensor | None:
    """The buffer `name` of the module at `path`; None where its module does not say for sure what is in it.

    What gives a module its first numbers, its `reset_parameters` and the model's `_init_weights`, runs on a copy of the
    module, twice, from other numbers and another seed: what comes out alike does not depend on them.
    """
    old = buffers_of(modules[path])[name]
    fills = torch.zeros(old.shape, dtype=old.dtype), torch.ones(old.shape, dtype=old.dtype)
    try:
        one, other = (_written(modules, path, name, fill, seed) for seed, fill in enumerate(fills))
    except Exception:  # Users' code may raise anything, and has computed nothing then.
        return None
    return one if torch.equal(one, other) else None


def _written(modules: Mapping[str, nn.Module], path: str, name: str, fill: Tensor, seed: int) -> Tensor:
    """What is in a buffer that begins with `fill`, once the functions have run."""
    module = modules[path]
    own = object.__new__(type(module))
    vars(own).update(vars(module), _buffers={**buffers_of(module), name: fill})
    with torch.random.fork_rng(devices=()), torch.no_grad():
        torch.manual_seed(seed)
        for function, given in _functions(modules, path, own):
            function(*given)
    return buffers_of(own)[name].to("cpu", copy=True)


def _functions(modules: Mapping[str, nn.Module], path: str, own: nn.Module) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """What gives `own` its first numbers: its method, and that of the module nearest around it that has one."""
    if (reset := getattr(own, "reset_parameters", None)) is not None:
        yield reset, ()
    parts = path.split(".") if path else []
    around = (modules.get(".".join(parts[:count])) for count in range(len(parts), -1, -1))
    init = next((init for each in around if (init := getattr(each, "_init_weights", None)) is not None), None)
    if init is not None:
        yield init, (own,)
