"""Linked ranks, run by IREE, compute what the interpreter of `dm` does, and train as one rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import iree.runtime as rt
import numpy as np
import pytest
from numpy.typing import NDArray

from dmc._mlir import ir
from dmc.lowering.iree import compile_module
from dmc.mesh import Mesh
from dmc.passes.link_ranks import LinkRanks
from dmc.runtime.dtypes import dtype_of, mlir_name
from dmc.step_function import find_step
from dmc.target import CPU
from tests import spmd
from tests.random_collectives import program, random_arguments

Array = NDArray[Any]
MESHES = (Mesh(x=2), Mesh(x=4), Mesh(x=2, y=2))


class Job:
    """The compiled `@step` of a module, called with arrays in the order of its arguments."""

    def __init__(self, module: ir.Module) -> None:
        instance = rt.VmInstance()
        code = rt.VmModule.copy_buffer(instance, compile_module(module, CPU).data)
        step = code.lookup_function("step")
        assert step is not None
        self.step, self.device = step, rt.get_device("local-task")
        self.context = rt.VmContext(instance, modules=[rt.create_hal_module(instance, self.device), code])

    def __call__(self, arguments: Sequence[Array], results: int) -> list[Array]:
        """The results of one call, of which there are so many."""
        inputs, outputs = rt.VmVariantList(len(arguments) + 2), rt.VmVariantList(results)
        for array in arguments:
            inputs.push_ref(self._buffer(array))
        done = rt.HalFence.create_at(self.device.create_semaphore(0), 1)
        for fence in (rt.HalFence(0), done):
            inputs.push_ref(fence.ref)
        self.context.invoke(self.step, inputs, outputs)
        done.wait()
        views = [outputs.get_as_object(i, rt.HalBufferView) for i in range(results)]
        return [rt.DeviceArray(self.device, view).to_host().copy() for view in views]

    def _buffer(self, array: Array) -> Any:
        return self.device.allocator.allocate_buffer_copy(
            memory_type=rt.MemoryType.DEVICE_LOCAL,
            allowed_usage=rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING,
            device=self.device,
            buffer=np.asarray(array, order="C"),
            element_type=getattr(rt.HalElementType, dtype_of(mlir_name(array.dtype)).hal),
        )


def _run(text: str, mesh: Mesh, arguments: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """Links `text` and runs it with `arguments[rank]`; what each rank returns."""
    module = ir.Module.parse(text)
    LinkRanks().run(module)
    module.operation.verify()
    count = len(find_step(module).type.results)
    flat = Job(module)([array for own in arguments for array in own], count)
    each = count // mesh.size
    return [flat[rank * each : (rank + 1) * each] for rank in mesh.ranks]


def _assert_same_bits(actual: Array, expected: Array, what: str) -> None:
    assert actual.shape == expected.shape
    assert actual.tobytes() == expected.tobytes(), f"{what}: not the same bits"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mesh", MESHES, ids=repr)
def test_random_programs(context: Any, mesh: Mesh, seed: int) -> None:
    text, arguments = program(mesh, seed, count=28), random_arguments(mesh, seed)
    expected = spmd.run(ir.Module.parse(text), "step", arguments).results
    actual = _run(text, mesh, arguments)
    lines = [line for line in text.splitlines() if "%v" in line and "group" in line]
    for rank in mesh.ranks:
        for line, result, wanted in zip(lines, actual[rank], expected[rank], strict=True):
            _assert_same_bits(result, wanted, f"rank {rank}: {line}")
