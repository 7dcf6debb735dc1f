"""dm-channels-last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dmc._mlir import ir
from dmc.analysis.kernels.contractions import is_convolution
from dmc.analysis.kernels.layouts import permutation
from dmc.passes.base import Pass
from dmc.passes.scheduled.tensors.channels_last import convolutions, generics, pieces
from dmc.passes.scheduled.tensors.channels_last.images import TRANSPOSE, Images, Lying
from dmc.passes.scheduled.tensors.channels_last.orders import is_image, turned
from dmc.passes.shared.loops import GENERIC
from dmc.passes.shared.reshapes import COLLAPSE, EXPAND
from dmc.passes.shared.unread import erase_unread
from dmc.step_function import find_step
from dmc.walk import walk


@dataclass(frozen=True)
class ChannelsLast(Pass):
    """Lays out images as [H, W, N, C] instead of [N, C, H, W]: convolutions become sums of products over it.

    One pixel is then a matrix of batch by channels, and what a filter reads of it as well: a GPU copies it in tiles
    however a convolution pads, strides and dilates. From convolutions on, whatever reads an image reads it where it
    lies: loops are permuted, transpositions vanish, and what cannot be permuted reads it transposed back. No number
    changes but by the order of sums.

    On CUDA only, in steps whose convolutions are all plain ones of two dimensions: others would have to read images
    transposed. And only if one of them has tiles worth copying: patches of images with three channels, as a vision
    transformer begins with, are read as well as they are.

    least: how many images, channels and filters a convolution must have.
    """

    name = "dm-channels-last"
    least: int = 16

    def run(self, module: ir.Module) -> None:
        ops = list(walk(find_step(module)))
        named = [op for op in ops if op.name.startswith("linalg.") and "conv" in op.name]
        if any(op.name != convolutions.PLAIN for op in named) or all(_width(op) < self.least for op in named):
            return
        blocks = [block for op in ops if op.name in _NESTING for region in op.regions for block in region]
        for block in reversed(blocks):
            _relay(block)


def _width(op: ir.Operation) -> int:
    """The number of images, channels or filters of a convolution, whichever is the least."""
    return min(*op.operands[0].type.shape[:2], op.results[0].type.shape[1])


def _relay(block: ir.Block) -> None:
    images = Images(state={value for value in block.arguments if is_image(value.type)})
    ops = [view.operation for view in block.operations]
    for op in reversed([op for op in ops if _is_relaid(images, op)]):
        op.erase()
    erase_unread(block)


def _is_relaid(images: Images, op: ir.Operation) -> bool:
    """Whether what an operation computes is now computed elsewhere; if not, it reads moved values as they were."""
    with op.location, ir.InsertionPoint(op):
        # What is nested in it may read more than its operands: elements of an image, wherever they are.
        for inner in list(walk(op))[1:]:
            _read_plain(images, inner)
        if _relaid(images, op):
            return True
        images.stays(op)
        _read_plain(images, op)
        return False


def _relaid(images: Images, op: ir.Operation) -> bool:
    """Whether an operation now computes its results from images where they lie."""
    if is_convolution(op):
        return convolutions.relaid(images, op)
    if not any(value in images.moved for value in op.operands):
        return False
    relay = _RULES.get(op.name)
    return relay is not None and relay(images, op)


def _transposed(images: Images, op: ir.Operation) -> bool:
    tensor, order = images.of(op.operands[0])
    images.moved[op.results[0]] = Lying(tensor, turned(order, permutation(op)))
    return True


def _read_plain(images: Images, op: ir.Operation) -> None:
    """Lets an operation read moved values in the order of their dimensions."""
    for i, value in enumerate(op.operands):
        if value in images.moved:
            op.operands[i] = images.plain(value)


# What holds computation on images: inner blocks are done before outer ones, which read what they return.
_NESTING = ("func.func", "scf.for")
_RULES: dict[str, Callable[[Images, ir.Operation], bool]] = {
    TRANSPOSE: _transposed,
    GENERIC: generics.relaid,
    pieces.CONCAT: pieces.joined,
    **dict.fromkeys((pieces.PAD, pieces.EXTRACT, pieces.INSERT, EXPAND, COLLAPSE), pieces.relaid),
}
