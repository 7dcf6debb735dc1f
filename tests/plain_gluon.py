"""Gluon for Triton's interpreter, which lacks it: tiles in shared memory are tensors, and copies and products are done
at once, but only known where they are waited for.

What would be a race or a deadlock on a GPU is an assertion: a wait for tiles that nobody copies, a tile replaced while
a product reads it or before all threads have passed a barrier since, a product that is read before it is waited for.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any
from unittest.mock import patch

import triton
import triton.experimental
import triton.language as tl


class _Thread:
    """What the one thread that stands for all has begun, and has not waited for."""

    def __init__(self) -> None:
        self.products: list[tuple[Room, ...]] = []
        # Read since the last barrier.
        self.read: set[int] = set()


_THREAD = _Thread()


def _assert_free(room: Room) -> None:
    assert all(room is not each.owner() for rooms in _THREAD.products for each in rooms), "a product reads it"
    assert id(room) not in _THREAD.read, "threads may still read it"


class Room:
    """Shared memory: tiles, or barriers."""

    def __init__(self, shape: Any, parent: Room | None = None) -> None:
        self.shape, self.parent = [int(size) for size in shape], parent
        self.slots: dict[int, Room] = {}
        self.value: Any = None
        self.expected, self.arrived, self.phases = 0, 0, 0

    @property
    def dtype(self) -> Any:
        """That of its numbers."""
        return self.owner().value.dtype

    def index(self, number: Any) -> Room:
        """One of several tiles."""
        return self.slots.setdefault(int(number), Room(self.shape[1:]))

    def reshape(self, shape: Any) -> Room:
        """The same memory with another shape."""
        return Room(shape, self)

    def permute(self, order: Any) -> Room:
        """The tile transposed."""
        return _View(self, _turned, [self.shape[int(each)] for each in order])

    def slice(self, start: Any, length: Any, dim: Any) -> Room:
        """Neighbouring elements of the last dimension."""
        first, count = int(start), int(length)
        return _View(self, lambda x: _part(x, first, count), [*self.shape[:-1], count])

    def load(self, layout: Any) -> Any:
        """Its numbers."""
        _THREAD.read.add(id(self.owner()))
        return self.tile()

    def store(self, value: Any) -> None:
        """Replaces its numbers."""
        _assert_free(self.owner())
        self.owner().value = value

    def owner(self) -> Room:
        """The memory that it shows."""
        return self.parent.owner() if self.parent else self

    def tile(self) -> Any:
        """Its numbers, in its shape."""
        return tl.reshape(self.owner().value, self.shape)


class _View(Room):
    def __init__(self, parent: Room, change: Any, shape: Any) -> None:
        super().__init__(shape, parent)
        self.change = change

    def tile(self) -> Any:
        assert self.parent is not None
        return self.change(self.parent.tile())


class Running:
    """The result of a product that was begun."""

    def __init__(self, value: Any, rooms: tuple[Room, ...]) -> None:
        self.value, self.rooms = value, rooms


def _turned(x: Any) -> Any:
    return tl.trans(x)


def _part(x: Any, first: int, count: int) -> Any:
    # The interpreter's tensors hold arrays of numpy.
    made = x.handle.data[..., first : first + count]
    return tl.tensor(type(x.handle)(made, x.handle.dtype), tl.block_type(x.dtype, list(made.shape)))


class _Barrier:
    MBarrierLayout = object

    @staticmethod
    def init(barrier: Room, count: Any) -> None:
        barrier.expected = barrier.arrived = barrier.phases = 0

    @staticmethod
    def expect(barrier: Room, bytes: Any, pred: Any = True) -> None:
        if bool(pred):
            assert not barrier.expected, "something is expected already"
            barrier.expected = int(bytes)

    @staticmethod
    def wait(barrier: Room, phase: Any) -> None:
        assert barrier.phases % 2 != int(phase), "nobody copies what is waited for"


class _Copies:
    @staticmethod
    def async_copy_global_to_shared(tensor: Any, place: Any, barrier: Room, room: Room, pred: Any = True) -> None:
        if not bool(pred):
            return
        owner = room.owner()
        _assert_free(owner)
        owner.value = tensor.load(place)
        barrier.arrived += tensor.block_type.nbytes
        if barrier.arrived == barrier.expected:
            barrier.expected = barrier.arrived = 0
            barrier.phases += 1

    @staticmethod
    def async_copy_shared_to_global(tensor: Any, place: Any, room: Room) -> None:
        tensor.store(place, tl.reshape(room.owner().value, tensor.block_type.shape))

    @staticmethod
    def store_wait(pendings: Any) -> None:
        pass


def _multiply(a: Any, b: Any, total: Any, use_acc: Any = True, is_async: bool = False) -> Running:
    rooms = tuple(each for each in (a, b) if isinstance(each, Room))
    first, second = (each.tile() if isinstance(each, Room) else each for each in (a, b))
    if isinstance(total, Running):
        # Products of one accumulator follow one another.
        total = total.value
    made = tl.dot(first, second, total if bool(use_acc) else None, input_precision="ieee", out_dtype=tl.float32)
    _THREAD.products.append(rooms)
    return Running(made, rooms)


def _wait(pending: Any, deps: tuple[Any, ...]) -> Any:
    done = _THREAD.products[: len(_THREAD.products) - int(pending)]
    _THREAD.products = _THREAD.products[len(done) :]
    _THREAD.read |= {id(room.owner()) for rooms in done for room in rooms}
    for each in deps:
        is_done = not isinstance(each, Running) or all(each.rooms is not rooms for rooms in _THREAD.products)
        assert is_done, "a product is read that still runs"
    values: tuple[Any, ...] = tuple(each.value if isinstance(each, Running) else each for each in deps)
    return values[0] if len(values) == 1 else values


class _Layout:
    def __init__(self, *parts: Any) -> None:
        self.parts = parts


class _Language(ModuleType):
    """Triton's functions, which its interpreter replaces while a kernel runs, some with an argument more."""

    NVMMADistributedLayout = SliceLayout = DotOperandLayout = _Layout

    def __getattr__(self, name: str) -> Any:
        return getattr(tl, name)

    def zeros(self, shape: Any, dtype: Any, layout: Any) -> Any:
        return tl.zeros(shape, dtype)

    def full(self, shape: Any, value: Any, dtype: Any, layout: Any) -> Any:
        return tl.full(shape, value, dtype)

    def arange(self, start: Any, end: Any, layout: Any) -> Any:
        return tl.arange(start, end)

    def convert_layout(self, x: Any, layout: Any, assert_trivial: bool = False) -> Any:
        return x

    def allocate_shared_memory(self, dtype: Any, shape: Any, layout: Any) -> Room:
        # Barriers: a program begins.
        _THREAD.products, _THREAD.read = [], set()
        return Room(shape)

    def thread_barrier(self) -> None:
        _THREAD.read = set()


def load(*names: str) -> None:
    """Imports modules of `dmc.kernels.jit`, in this order, with these in place of Gluon, which Triton itself needs."""
    gluon, language = ModuleType("triton.experimental.gluon"), _Language("triton.experimental.gluon.language")
    gluon.jit, gluon.language = triton.jit, language
    hopper = ModuleType("triton.experimental.gluon.language.nvidia.hopper")
    hopper.fence_async_shared = lambda: None
    hopper.mbarrier, hopper.tma = _Barrier, _Copies
    hopper.warpgroup_mma, hopper.warpgroup_mma_wait = _multiply, _wait
    hopper.warpgroup_mma_init = lambda value: Running(value, ())
    # Tensors have no layouts here.
    tl.block_type.layout = tl.tensor_descriptor.layout = None
    modules = {module.__name__: module for module in (gluon, language, hopper)}
    for name in names:
        with patch.dict(sys.modules, modules), patch.object(triton.experimental, "gluon", gluon, create=True):
            module = importlib.import_module(f"dmc.kernels.jit.{name}")
        sys.modules[module.__name__] = module
        vars(module).update({name: each.value for name, each in vars(module).items() if isinstance(each, tl.constexpr)})
        # The interpreter looks for the one in a kernel's module, and has tuples where Gluon has lists.
        vars(module)["tl"] = tl
        if hasattr(module, "rooms_of"):
            vars(module)["rooms_of"] = _rooms_of


def _rooms_of(tensor: Any, count: Any) -> Room:
    return Room([count, *tensor.block_type.shape])
