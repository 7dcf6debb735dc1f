"""The machine code of a job's kernels, and how each is carried out with it."""

from __future__ import annotations

import hashlib
import zlib
from typing import Literal, TypeAlias

import msgspec

from dmc.errors import ArtifactError

Role = Literal["read", "write", "scratch"]
# What is done with a buffer: it is read, written, or both.
Access = Literal["ro", "wo", "rw"]
Extent = tuple[int, int, int]
# What tells algorithms of cuBLASLt from each other, by their names in `cublasLtMatmulAlgoConfigAttributes_t`.
ALGORITHM = (
    "ID",
    "TILE_ID",
    "SPLITK_NUM",
    "REDUCTION_SCHEME",
    "CTA_SWIZZLING",
    "CUSTOM_OPTION",
    "STAGES_ID",
    "INNER_SHAPE_ID",
    "CLUSTER_SHAPE_ID",
)
ITEM_BYTES = {"f32": 4, "bf16": 2, "f16": 2}
# The module that IREE makes of all its kernels.
MAIN = "iree"


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Bytes [offset, offset + length) of operand `index` ("read"), of result `index` ("write"), or of the scratch."""

    role: Role
    index: int
    offset: int
    length: int

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.offset + self.length

    def touches(self, other: Place) -> bool:
        """Whether the two have a byte in common, as long as no two of a kernel's ranges have."""
        if (self.role, self.index) != (other.role, other.index):
            return False
        return self.offset < other.end and other.offset < self.end


class TensorMap(msgspec.Struct, frozen=True, array_like=True):
    """A buffer as an array of `shape`, its elements `strides` apart, of which the GPU copies a box at a time.

    The last dimension is contiguous. swizzle: how a box lies in shared memory, as CUDA numbers it
    (`CUtensorMapSwizzle`).
    """

    dtype: Literal["f32", "bf16", "f16"]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int

    @property
    def length(self) -> int:
        """The bytes from its first element to behind its last."""
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * ITEM_BYTES[self.dtype]

    @property
    def parameters(self) -> int:
        """How many parameters it is to an entry: the map itself, then its shape and its strides."""
        return 1 + 2 * len(self.shape)


class Binding(msgspec.Struct, frozen=True, array_like=True):
    """A buffer of a dispatch, and what the dispatch does with it. map: how the entry gets it, if not by a pointer."""

    access: Access
    place: Place
    map: TensorMap | None = None

    @property
    def parameters(self) -> int:
        """How many parameters it is to an entry."""
        return 1 if self.map is None else self.map.parameters


class Dispatch(msgspec.Struct, frozen=True, array_like=True, tag="dispatch"):
    """Runs `entry`: a pointer for each of `bindings`, then `scalars` as 32-bit integers, then `nulls` null pointers.

    Instead of a pointer a binding may have a tensor map: its 128 bytes, its shape in 32 bits each, its strides in 64.

    grid: blocks, block: threads, along x, y, z. shared: bytes of dynamic shared memory of a block. ordered: the pairs
    (read, written) of bindings of which the one may lie on the other where the code goes element by element. module: of
    `DeviceCode.modules`, the one that holds the entry.
    """

    entry: str
    grid: Extent
    block: Extent
    shared: int
    bindings: tuple[Binding, ...]
    scalars: tuple[int, ...] = ()
    ordered: tuple[tuple[int, int], ...] = ()
    module: str = MAIN
    nulls: int = 0


class Fill(msgspec.Struct, frozen=True, array_like=True, tag="fill"):
    """Writes `pattern`, 1, 2 or 4 bytes (little endian), all over `target`."""

    pattern: bytes
    target: Place


class Copy(msgspec.Struct, frozen=True, array_like=True, tag="copy"):
    """Copies `source` to `target`."""

    source: Place
    target: Place


class Matrix(msgspec.Struct, frozen=True, array_like=True):
    """`batch` matrices, one behind the other, row-major as they lie: `rows` × `columns` of `dtype`.

    transposed: whether the product takes them so.
    """

    place: Place
    dtype: Literal["f32", "bf16", "f16"]
    batch: int
    rows: int
    columns: int
    transposed: bool = False


class Product(msgspec.Struct, frozen=True, array_like=True, tag="product"):
    """result = left · right, each of a batch, by cuBLASLt; sums are in f32. workspace: memory that it may use.

    algorithm: one of cuBLASLt's, by the numbers that `ALGORITHM` names; without it, the first that its heuristic gives.
    alignment: what the addresses of all three are multiples of, in bytes.
    """

    left: Matrix
    right: Matrix
    result: Matrix
    workspace: Place
    algorithm: tuple[int, ...] = ()
    alignment: int = 16

    def places(self) -> tuple[Place, Place, Place]:
        """Where left, right and result lie."""
        return self.left.place, self.right.place, self.result.place


Step: TypeAlias = Dispatch | Fill | Copy | Product


class CodeModule(msgspec.Struct, frozen=True, array_like=True):
    """Entries that are loaded together. ptx: their text. cubin: what was assembled of it, or nothing."""

    ptx: str
    cubin: bytes = b""

    @property
    def image(self) -> bytes:
        """What the driver loads; it assembles text itself."""
        return self.cubin or self.ptx.encode()


class DeviceCode(msgspec.Struct, frozen=True, array_like=True):
    """modules: the code, by name. kernels: the steps of each, in order, by the kernel's name."""

    modules: dict[str, CodeModule]
    kernels: dict[str, tuple[Step, ...]]

    def to_bytes(self) -> bytes:
        """The code as a compact file. Equal code gives equal bytes."""
        return zlib.compress(msgspec.msgpack.encode(self), 6)

    @staticmethod
    def from_bytes(data: bytes, where: str = "the code") -> DeviceCode:
        """The inverse of `to_bytes`; every field is checked against its type. Raises ArtifactError."""
        try:
            return msgspec.msgpack.decode(zlib.decompress(data), type=DeviceCode)
        except (zlib.error, msgspec.DecodeError) as error:
            raise ArtifactError(where, f"is damaged ({error})", hint="compile the step again") from error

    def digest(self) -> str:
        """SHA-256 of what the code says, in hexadecimal."""
        return hashlib.sha256(msgspec.msgpack.encode(self)).hexdigest()
