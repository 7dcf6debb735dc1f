"""The machine code of a job's kernels, and the steps that execute each."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from dmc.dtypes import Factor, Narrow
from dmc.program.limits import Count, Shape
from dmc.program.packed import MAX_BYTES, packed, unpacked
from dmc.program.sizes import element_bytes

Role = Literal["read", "write", "scratch"]
# The access to a buffer: read, written, or both.
Access = Literal["ro", "wo", "rw"]
Extent = tuple[Count, Count, Count]
# What a launch passes by value, and how many of it at most.
_Word = Annotated[int, Meta(ge=-(1 << 31), lt=1 << 32)]
_MOST = 4096
# The attributes that identify an algorithm of cuBLASLt (`cublasLtMatmulAlgoConfigAttributes_t`).
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
# The module of all of IREE's kernels.
MAIN = "iree"


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Bytes [offset, offset + length) of operand `index` ("read"), of result `index` ("write"), or of scratch."""

    role: Role
    index: Count
    offset: Count
    length: Count

    @property
    def end(self) -> int:
        """The end: the first byte after it."""
        return self.offset + self.length

    def touches(self, other: Place) -> bool:
        """Whether the two overlap, provided that no two of a kernel's ranges do."""
        if (self.role, self.index) != (other.role, other.index):
            return False
        return self.offset < other.end and other.offset < self.end


class TensorMap(msgspec.Struct, frozen=True, array_like=True):
    """A view of a buffer, of which the GPU's copy engine (TMA) transfers one box at a time.

    strides: in elements; the last dimension is contiguous. swizzle: the layout of a box in shared memory
    (`CUtensorMapSwizzle`).
    """

    dtype: Factor
    shape: Shape
    strides: Shape
    box: Shape
    swizzle: Count

    def __post_init__(self) -> None:
        if not len(self.shape) == len(self.strides) == len(self.box):
            raise ValueError("a tensor map has a stride and a box size for each dimension")

    @property
    def length(self) -> int:
        """The bytes from its first element to the end of its last."""
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * element_bytes(self.dtype)

    @property
    def parameters(self) -> int:
        """The number of an entry's parameters for it: the map itself, then its shape and its strides."""
        return 1 + 2 * len(self.shape)


class Binding(msgspec.Struct, frozen=True, array_like=True):
    """A buffer of a dispatch, and the dispatch's access to it. map: passed to the entry instead of a pointer."""

    access: Access
    place: Place
    map: TensorMap | None = None

    @property
    def parameters(self) -> int:
        """The number of an entry's parameters for it."""
        return 1 if self.map is None else self.map.parameters


class Dispatch(msgspec.Struct, frozen=True, array_like=True, tag="dispatch"):
    """Launches `entry`: a pointer for each of `bindings`, then `scalars` as 32-bit integers, then `nulls` null
    pointers.

    A binding with a tensor map passes its 128 bytes, then shape (32 bits each) and strides (64 bits each) instead.

    grid: blocks, block: threads, along x, y, z. shared: bytes of dynamic shared memory per block. ordered: the pairs
    (read, written) of bindings that may alias, as the code is elementwise. module: the one of `DeviceCode.modules` with
    the entry.
    """

    entry: str
    grid: Extent
    block: Extent
    shared: Count
    bindings: tuple[Binding, ...]
    scalars: tuple[_Word, ...] = ()
    ordered: tuple[tuple[Count, Count], ...] = ()
    module: str = MAIN
    nulls: Annotated[int, Meta(ge=0, le=_MOST)] = 0


class Fill(msgspec.Struct, frozen=True, array_like=True, tag="fill"):
    """Fills `target` with `pattern`, 1, 2 or 4 bytes (little endian)."""

    pattern: bytes
    target: Place

    def __post_init__(self) -> None:
        if len(self.pattern) not in (1, 2, 4):
            raise ValueError(f"a pattern of {len(self.pattern)} bytes")


class Copy(msgspec.Struct, frozen=True, array_like=True, tag="copy"):
    """Copies `source` to `target`."""

    source: Place
    target: Place


class Matrix(msgspec.Struct, frozen=True, array_like=True):
    """`batch` consecutive row-major matrices in memory: `rows` × `columns` of `dtype`.

    transposed: whether the product uses them transposed.
    """

    place: Place
    dtype: Factor
    batch: Count
    rows: Count
    columns: Count
    transposed: bool = False


class Product(msgspec.Struct, frozen=True, array_like=True, tag="product"):
    """result = left · right, each of a batch, by cuBLASLt; sums are in f32. workspace: memory that it may use.

    algorithm: one of cuBLASLt's, as the values of `ALGORITHM`; by default the first of its heuristic. alignment: that
    of all three addresses, in bytes.
    """

    left: Matrix
    right: Matrix
    result: Matrix
    workspace: Place
    algorithm: tuple[Count, ...] = ()
    alignment: Annotated[int, Meta(ge=1, le=1 << 20)] = 16

    def places(self) -> tuple[Place, Place, Place]:
        """The places of left, right and result."""
        return self.left.place, self.right.place, self.result.place


class Heads(msgspec.Struct, frozen=True, array_like=True):
    """A tensor [batch, heads, rows, width] in memory. strides: in elements; the last is 1."""

    place: Place
    shape: tuple[Count, Count, Count, Count]
    strides: tuple[Count, Count, Count, Count]


class Attention(msgspec.Struct, frozen=True, array_like=True, tag="attention"):
    """out = softmax(scale · q · kᵀ) · v by cuDNN, and the log-sum-exp of each row, f32 [batch, heads, rows, 1].

    q, k, v and out are of `dtype`; k and v may have fewer heads. causal: a row sees the columns up to its own.
    workspace: memory that the library may use.
    """

    q: Heads
    k: Heads
    v: Heads
    out: Heads
    logsumexp: Place
    dtype: Narrow
    scale: float
    causal: bool
    workspace: Place

    @property
    def alignment(self) -> int:
        """That of all addresses, in bytes."""
        return 16

    def places(self) -> tuple[Place, ...]:
        """The places of q, k, v, out and the log-sum-exp."""
        return (*(each.place for each in (self.q, self.k, self.v, self.out)), self.logsumexp)


Step: TypeAlias = Dispatch | Fill | Copy | Product | Attention


class CodeModule(msgspec.Struct, frozen=True, array_like=True):
    """Entries that are loaded together. ptx: their text. cubin: the code assembled from it, or empty."""

    ptx: str
    cubin: bytes = b""

    @property
    def image(self) -> bytes:
        """The code that the driver loads; it assembles PTX itself."""
        return self.cubin or self.ptx.encode()


class DeviceCode(msgspec.Struct, frozen=True, array_like=True):
    """modules: the code, by name. kernels: the steps of each, in order, by the kernel's name."""

    modules: dict[str, CodeModule]
    kernels: dict[str, tuple[Step, ...]]

    def to_bytes(self) -> bytes:
        """The code as a compact file. Equal code gives equal bytes."""
        return packed(self)

    @staticmethod
    def from_bytes(data: bytes, where: str = "the code", size: int = MAX_BYTES) -> DeviceCode:
        """The inverse of `to_bytes`; every field is checked against its type. size: of the code unpacked, at most.

        Raises ArtifactError.
        """
        return unpacked(data, DeviceCode, where, "compile the step again", size)

    def digest(self) -> str:
        """SHA-256 of the code, in hexadecimal."""
        return hashlib.sha256(msgspec.msgpack.encode(self)).hexdigest()
