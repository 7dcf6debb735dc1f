"""For tests: regions that convolve images [H, W, N, C], with padding and zeros in gaps before the product."""

from __future__ import annotations

from dataclasses import dataclass

from dmc._mlir import ir
from tests.generated_regions import region

_LOOPS = "h, w, n, f, y, x, c"


@dataclass(frozen=True)
class Convolution:
    """Images of `size`² pixels and `channels`, a filter of `taps`², to `features`; `gap` - 1 zeros between pixels.

    filling: what images are padded with; beside: by how many channels as well, on either side.
    """

    size: int
    images: int
    channels: int
    features: int
    taps: int = 3
    pad: int = 1
    step: int = 1
    dilation: int = 1
    gap: int = 1
    filling: float = 0.0
    beside: int = 0

    @property
    def depth(self) -> int:
        """The channels that are read."""
        return self.channels + 2 * self.beside

    @property
    def stuffed(self) -> int:
        """The width of the images with zeros between pixels."""
        return (self.size - 1) * self.gap + 1

    @property
    def made(self) -> int:
        """The width of the result."""
        return (self.stuffed + 2 * self.pad - self.dilation * (self.taps - 1) - 1) // self.step + 1

    def padded(self) -> str:
        """Operations that make %p, the factor, of %x."""
        tail = f"{self.images}x{self.channels}xbf16"
        small, stuffed = (f"tensor<{each}x{each}x{tail}>" for each in (self.size, self.stuffed))
        width = self.stuffed + 2 * self.pad
        stuff = (
            ""
            if self.gap == 1
            else f"""
      %empty = tensor.empty() : {stuffed}
      %zeros = linalg.fill ins(%none : bf16) outs(%empty : {stuffed}) -> {stuffed}
      %stuffed = tensor.insert_slice %x into %zeros[0, 0, 0, 0] [{self.size}, {self.size}, {self.images},
          {self.channels}] [{self.gap}, {self.gap}, 1, 1] : {small} into {stuffed}"""
        )
        added = f"[{self.pad}, {self.pad}, 0, {self.beside}]"
        return f"""%none = arith.constant 0.0 : bf16
      {stuff}
      %filling = arith.constant {self.filling} : bf16
      %p = tensor.pad {"%x" if self.gap == 1 else "%stuffed"} low{added} high{added} {{
      ^bb0(%i: index, %j: index, %k: index, %l: index):
        tensor.yield %filling : bf16
      }} : {stuffed} to tensor<{width}x{width}x{self.images}x{self.depth}xbf16>"""

    def window(self) -> str:
        """Where a tap of the filter reads."""
        scale, spread = (f" * {each}" if each > 1 else "" for each in (self.step, self.dilation))
        return f"(h{scale} + y{spread}, w{scale} + x{spread}, n, c)"

    def forward(self) -> ir.Module:
        """relu(conv(x, w) + b), rounded; x may be a gradient with gaps, w then is turned by half a turn."""
        n, f, c, out, width = self.images, self.features, self.depth, self.made, self.stuffed + 2 * self.pad
        maps = f"affine_map<({_LOOPS}) -> {self.window()}>, affine_map<({_LOOPS}) -> (y, x, f, c)>"
        wide, narrow = (f"tensor<{out}x{out}x{n}x{f}x{dtype}>" for dtype in ("f32", "bf16"))
        types = f"tensor<{width}x{width}x{n}x{c}xbf16>, tensor<{self.taps}x{self.taps}x{f}x{c}xbf16>"
        x = f"tensor<{self.size}x{self.size}x{n}x{self.channels}xbf16>"
        same = "affine_map<(h, w, n, f) -> (h, w, n, f)>"
        return region(f"""(%x: {x}, %w: {types.split(", ")[1]}, %b: tensor<{f}xf32>) -> {narrow} {{
      {self.padded()}
      {_summed(maps, "(h, w, n, f)", "p", "parallel " * 4 + "reduction " * 3, types, wide)}
      %n = tensor.empty() : {narrow}
      %2 = linalg.generic {{indexing_maps = [{same}, affine_map<(h, w, n, f) -> (f)>, {same}],
          iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
          ins(%1, %b : {wide}, tensor<{f}xf32>) outs(%n : {narrow}) {{
      ^bb0(%in: f32, %bias: f32, %o: bf16):
        %s = arith.addf %in, %bias : f32
        %m = arith.maximumf %s, %zero : f32
        %t = arith.truncf %m : f32 to bf16
        linalg.yield %t : bf16
      }} -> {narrow}
      return %2 : {narrow}
    }}""")

    def filters(self) -> ir.Module:
        """The gradient of the filters [y, x, f, c], of images and the gradients of the result."""
        n, f, c, out, width = self.images, self.features, self.depth, self.made, self.stuffed + 2 * self.pad
        maps = f"affine_map<({_LOOPS}) -> {self.window()}>, affine_map<({_LOOPS}) -> (h, w, n, f)>"
        types = f"tensor<{width}x{width}x{n}x{c}xbf16>, tensor<{out}x{out}x{n}x{f}xbf16>"
        wide = f"tensor<{self.taps}x{self.taps}x{f}x{c}xf32>"
        kinds = "reduction " * 3 + "parallel " * 4
        x = f"tensor<{self.size}x{self.size}x{n}x{self.channels}xbf16>"
        return region(f"""(%x: {x}, %w: {types.split(", ")[1]}) -> {wide} {{
      {self.padded()}
      {_summed(maps, "(y, x, f, c)", "p", kinds, types, wide)}
      return %1 : {wide}
    }}""")


def _summed(maps: str, result: str, image: str, kinds: str, types: str, wide: str) -> str:
    """Operations that make %1, the sum of products of %p and %w."""
    iterators = ", ".join(f'"{each}"' for each in kinds.split())
    return f"""%zero = arith.constant 0.0 : f32
      %e = tensor.empty() : {wide}
      %z = linalg.fill ins(%zero : f32) outs(%e : {wide}) -> {wide}
      %1 = linalg.generic {{indexing_maps = [{maps}, affine_map<({_LOOPS}) -> {result}>],
          iterator_types = [{iterators}]}} ins(%{image}, %w : {types}) outs(%z : {wide}) {{
      ^bb0(%left: bf16, %right: bf16, %sum: f32):
        %first = arith.extf %left : bf16 to f32
        %second = arith.extf %right : bf16 to f32
        %m = arith.mulf %first, %second : f32
        %s = arith.addf %sum, %m : f32
        linalg.yield %s : f32
      }} -> {wide}"""
