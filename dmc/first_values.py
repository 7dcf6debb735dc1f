"""The first numbers of a large model's parameters: what makes it is recorded without memory, and done one by one."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from dmc.dtypes import dtype_of
from dmc.errors import DmcError, StateError
from dmc.importer.torch_internals import is_mutable, storage_key, untraced
from dmc.importer.traced import MLIR_NAMES
from dmc.memo import Memo
from dmc.program.signature import StateSpec
from dmc.runtime.state.fingerprints import fingerprints
from dmc.runtime.state.held_state import HeldState
from dmc.runtime.tensors.arrays import to_array
from dmc.runtime.tensors.ranks import NOTHING, Spread

_ITEM = (torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default)
_EMPTY = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted")
# Draws again what it does not like, until it likes all.
_TRUNCATED = "_no_grad_trunc_normal_"
_TYPES = {name: dtype for dtype, name in MLIR_NAMES.items()}
_WAY_OUT = 'make it with its numbers, and pass these: step.load_state_dict({"model": model.state_dict()})'


@dataclass(frozen=True)
class _Call:
    """An operation while the model was made. writes: whether its result is an operand that it changes."""

    function: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    results: list[Tensor]
    writes: bool

    @cached_property
    def read(self) -> set[int]:
        """The memory of its operands."""
        return {storage_key(each) for each in _tensors((self.args, self.kwargs))}

    @cached_property
    def written(self) -> set[int]:
        """The memory that it makes or writes into; none where it makes a view."""
        results = {storage_key(each) for each in self.results}
        return results if self.writes else results - self.read

    @property
    def is_empty(self) -> bool:
        """Whether it makes memory, and puts nothing into it."""
        return not self.writes and self.function.overloadpacket.__name__ in _EMPTY


class _Recorder(TorchDispatchMode):
    """Records all operations. A number that Python asks for is computed from what was recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[_Call] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _ITEM and isinstance(args[0], FakeTensor):
            with untraced():
                return _replayed(self.slice(args[0]), args[0]).item()
        results = func(*args, **(kwargs or {}))
        self.calls.append(_Call(func, args, kwargs or {}, _tensors(results), is_mutable(func)))
        return results

    def whole(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """A function that fills its first operand, recorded as one operation."""

        def recorded(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            self.calls.append(_Call(function, (tensor, *args), kwargs, [tensor], writes=True))
            return tensor

        return recorded

    def slice(self, tensor: Tensor) -> list[_Call]:
        """The operations that decide what is in the memory of a tensor, in order."""
        wanted, needed = {storage_key(tensor)}, list[_Call]()
        for call in reversed(self.calls):
            if call.written & wanted:
                needed.append(call)
                wanted |= call.read
        return needed[::-1]


class FirstValues:
    """The tensors of a model as `make` makes it, each when it is asked for.

    Random numbers depend on `seed` and the tensor's name alone. tensors: of the model, by name, without numbers.
    """

    def __init__(self, make: Callable[[], nn.Module], seed: int) -> None:
        """Raises DmcError for a model of shapes that depend on its numbers."""
        self._seed, self._recorder = seed, _Recorder()
        truncated = self._recorder.whole(getattr(nn.init, _TRUNCATED))
        try:
            patched = mock.patch.object(nn.init, _TRUNCATED, truncated)
            with _seeded(seed), patched, FakeTensorMode(allow_non_fake_inputs=True), self._recorder:
                model = make()
        except DynamicOutputShapeException as error:
            fact = f"the model makes a tensor whose shape depends on numbers, by {error.func}"
            raise DmcError("initialise", fact, _WAY_OUT) from error
        named = (model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False))
        self.tensors = {name: tensor for each in named for name, tensor in each}

    def check(self, names: Iterable[str]) -> None:
        """Raises DmcError for a tensor that gets no numbers."""
        for name in names:
            if all(call.is_empty for call in self._recorder.slice(self.tensors[name])):
                raise DmcError(f"'{name}'", "gets no numbers while the model is made", _WAY_OUT)

    def value(self, name: str) -> Tensor:
        """The numbers of a tensor, on the CPU."""
        calls = self._recorder.slice(self.tensors[name])
        digest = hashlib.sha256(f"{self._seed} {name}".encode()).digest()
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(int.from_bytes(digest[:7], "little"))
            return _replayed(calls, self.tensors[name])


def initialise(state: HeldState, make: Callable[[], nn.Module], seed: int) -> dict[str, str]:
    """Gives the state the first numbers of a model, tensor by tensor; returns the fingerprints of frozen ones.

    Raises StateError, the state unchanged, where another model is made, and DmcError as `FirstValues`.
    """
    values = FirstValues(make, seed)
    names = _names(state, values.tensors)
    values.check(names.values())
    found: dict[str, str] = {}

    def whole(index: int) -> np.ndarray:
        spec = state.specs[index]
        array = to_array(values.value(names[index]).to(_TYPES[spec.dtype]), spec, spec.name, StateError)
        found.update(fingerprints([spec], [array]))
        return array

    def parts_of(index: int) -> Callable[[int], np.ndarray]:
        # Of one tensor, all ranks here take their parts in turn.
        tensor = partial(Memo[int, np.ndarray]().of, index, whole, index)
        return partial(_part, state.spread(index), state.specs[index], tensor)

    parts = ((index, parts_of(index)) for index in names)
    state.together(lambda: state.write(parts, frozenset(state.specs[index].name for index in names)))
    return found


def _part(spread: Spread, spec: StateSpec, whole: Callable[[], np.ndarray], rank: int) -> np.ndarray:
    # All ranks know the fingerprints of what is frozen.
    if rank in spread.holders or spec.role == "frozen":
        return spread.part(whole(), rank)
    return np.empty(NOTHING, dtype_of(spec.dtype).numpy)


def _names(state: HeldState, tensors: Mapping[str, Tensor]) -> dict[int, str]:
    """The name in the model of each of its tensors in the state, by number. Raises StateError."""
    found: dict[int, str] = {}
    facts: list[str] = []
    for index, spec in enumerate(state.specs):
        if spec.role not in ("parameter", "frozen", "buffer"):
            continue
        name = next((each for each in (spec.name, *spec.aliases) if each in tensors), None)
        if name is None:
            facts += [f"has no '{spec.name}'"] if spec.name in state.unset else []
        elif tensors[name].shape != spec.shape:
            facts.append(f"has '{name}' of shape {list(tensors[name].shape)}, the step of {list(spec.shape)}")
        else:
            found[index] = name
    if facts:
        more = f" ({len(facts)} such tensors)" if len(facts) > 1 else ""
        raise StateError("the model that was made", f"{facts[0]}{more}", hint="make the model that was compiled")
    return found


@torch.no_grad()
def _replayed(calls: Iterable[_Call], wanted: Tensor) -> Tensor:
    """Runs what was recorded; `wanted` with its numbers."""
    # What lies in each memory, in a row: a view is found there by its strides.
    memory: dict[int, Tensor] = {}

    def real(value: Any) -> Any:
        if not isinstance(value, FakeTensor):
            return value
        return memory[storage_key(value)].as_strided(value.shape, value.stride(), value.storage_offset())

    for call in calls:
        args, kwargs = pytree.tree_map(real, (call.args, dict(call.kwargs)))
        made = _tensors(call.function(*args, **kwargs))
        for fake, each in zip(call.results, made, strict=True):
            if (key := storage_key(fake)) not in memory:
                memory[key] = each.as_strided([each.untyped_storage().nbytes() // each.itemsize], [1], 0)
    return real(wanted)


def _tensors(value: Any) -> list[Tensor]:
    return [each for each in pytree.tree_leaves(value) if isinstance(each, Tensor)]


@contextmanager
def _seeded(seed: int) -> Generator[None]:
    """Lets Python, NumPy and PyTorch draw the same on all ranks, and afterwards what they would have drawn."""
    python, numpy = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    try:
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
