"""For tests of linked ranks: a module's `@step`, compiled by IREE for the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import iree.runtime as rt
import numpy as np
from numpy.typing import NDArray

from dmc._mlir import ir
from dmc.lowering.iree import compile_module
from dmc.runtime.dtypes import dtype_of, mlir_name
from dmc.target import CPU

Array = NDArray[Any]


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
