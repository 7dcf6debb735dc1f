"""Shared memory for tiles that TMA copies, and barriers for them, in Gluon."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

jit = gluon.jit


@jit
def rooms_of(tensor, count: gl.constexpr):
    """Shared memory for `count` tiles of a tensor."""
    return gl.allocate_shared_memory(tensor.dtype, [count] + tensor.block_type.shape, tensor.layout)


@jit
def barriers_of(count: gl.constexpr):
    """Barriers, each for what is copied at a time."""
    barriers = gl.allocate_shared_memory(gl.int64, [count, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(count):
        mbarrier.init(barriers.index(i), count=1)
    return barriers
