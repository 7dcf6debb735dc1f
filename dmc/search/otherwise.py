"""Other places for single weights than those that a plan gives them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import nn

from dmc.errors import DmcError, PlanError
from dmc.plans import patterns
from dmc.plans.rules import Replicate
from dmc.plans.tensors import TensorPlan
from dmc.search.candidates import Candidate, Placed, Pruned
from dmc.search.finals import Search
from dmc.search.layers import Repeated, repeated_layers


@dataclass(frozen=True)
class Weights:
    """The weights of a path, those of most dimensions alone, in all equal layers. pattern: of their names, as in the
    plan language. dims: how many dimensions each has."""

    path: str
    pattern: str
    dims: int


def weights_of(model: nn.Module, path: str) -> Weights:
    """The weights of the modules, or those by the name, that a shell pattern matches, as in the plan language.

    Raises PlanError where it matches none, or not the same in all equal layers.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    named: dict[str, tuple[int, ...] | None] = {}
    for name, each in parameters.items():
        named |= {name[: dot.start()]: None for dot in re.finditer(r"\.", name)} | {name: tuple(each.shape)}
    try:
        found = patterns.find(Replicate(path), path, named, "module or weight")
    except PlanError as error:
        raise PlanError(f"why '{path}'", error.fact, error.hint) from error
    inside = [name for name in parameters if any(name == each or name.startswith(f"{each}.") for each in found)]
    most = max(parameters[name].dim() for name in inside)
    chosen = [name for name in inside if parameters[name].dim() == most]
    pattern = "|".join(_patterns(path, chosen, repeated_layers(model)))
    return Weights(path, pattern, most)


def _patterns(path: str, chosen: list[str], layers: tuple[Repeated, ...]) -> dict[str, None]:
    """Patterns of the names, one for a name in all equal layers."""
    members: dict[str, tuple[Repeated, set[int]]] = {}
    found: dict[str, None] = {}
    for name in chosen:
        layer, number, rest = _member(name, layers)
        if layer is None:
            found[f".{name}"] = None
            continue
        if number >= layer.first + layer.count:
            fact = f"is about '{name}', which is behind layers in one list, and has another number without these"
            raise PlanError(f"why '{path}'", fact, "give the layers that repeat a list of their own")
        own = f".{layer.prefix}*.{rest}"
        found[own] = None
        members.setdefault(own, (layer, set()))[1].add(number)
    for own, (layer, numbers) in members.items():
        if len(numbers) < layer.count:
            fact = f"is about {len(numbers)} of {layer.count} equal layers, whose weights a search places alike"
            raise PlanError(f"why '{path}'", fact, f"ask about '{own.removeprefix('.')}'")
    return found


def _member(name: str, layers: tuple[Repeated, ...]) -> tuple[Repeated | None, int, str]:
    """The kind of layer that a weight is in, or behind in one list; the layer's number, and its name in there."""
    for layer in layers:
        number, _, rest = name.removeprefix(layer.prefix).partition(".")
        if name.startswith(layer.prefix) and number.isdecimal() and int(number) >= layer.first:
            return layer, int(number), rest
    return None, 0, name


def otherwise(search: Search, own: Candidate, weights: Weights) -> tuple[list[Candidate], list[Pruned]]:
    """The candidate with the weights in other places than in its own: whole, or split along each dimension over each
    axis of the mesh; and those that cannot be."""
    found: list[Candidate] = []
    pruned: list[Pruned] = []
    now = _layouts(placements(search, own, weights))
    for place in _places(own, weights):
        candidate = replace(own, placed=(place,))
        try:
            if _layouts(placements(search, candidate, weights)) != now:
                found.append(candidate)
        except DmcError as error:
            pruned.append(Pruned(str(place), f"{error.place}: {error.fact}"))
    return found, pruned


def placements(search: Search, candidate: Candidate, weights: Weights) -> dict[str, TensorPlan]:
    """How the plan of a candidate places the weights, by name, of one layer of each kind."""
    accumulate = 1 if candidate.pp > 1 else search.problem.accumulate or 1
    resolved = search.estimates.placed(candidate.inner.plan(search.facts), accumulate, candidate.microbatches)
    found: dict[str, TensorPlan] = {}
    for pattern in weights.pattern.split("|"):
        matches = patterns.matcher(pattern)
        tensors = resolved.tensors.values()
        # Tied weights have several names.
        first = next(each for each in tensors if any(map(matches, (each.spec.name, *each.spec.aliases))))
        found[pattern.removeprefix(".")] = first
    return found


def _layouts(placed: dict[str, TensorPlan]) -> list[object]:
    return [(each.stored, each.used, each.gradient, each.reduced, each.optimizer) for each in placed.values()]


def _places(own: Candidate, weights: Weights) -> Iterator[Placed]:
    yield Placed(weights.pattern)
    for axis, size in (("dp", own.dp), ("tp", own.tp)):
        if size > 1:
            yield from (Placed(weights.pattern, dim, axis) for dim in range(weights.dims))
