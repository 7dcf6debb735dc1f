"""The candidates for the kernels of a step, ready to be timed, and the table of the fastest."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from pathlib import Path

import msgspec

from dmc.errors import ArtifactError
from dmc.program.code import ALGORITHM, CodeModule, Step
from dmc.program.kernel import Kernel, Operand
from dmc.program.packed import packed, unpacked

SCHEMA = 1
# The file suffixes of a step's tuning table and of its candidates.
TUNED, CANDIDATES = ".tuning.json", ".candidates"
# The architecture of all of Triton's code.
ARCHITECTURE = "sm_90"
# The label of the first algorithm of cuBLASLt's heuristic.
HEURISTIC = "the library's choice"
# The label of attention by cuDNN.
CUDNN = "cudnn"


class Candidate(msgspec.Struct, frozen=True, array_like=True):
    """One way to compute a kernel. label: its name. scratch: bytes that it needs besides operands and results."""

    label: str
    steps: tuple[Step, ...]
    scratch: int


class Tunable(msgspec.Struct, frozen=True, array_like=True):
    """A kernel with several candidates, first the default.

    key: a digest of its body, including types, and of the labels of its candidates. A product of cuBLASLt has one
    candidate; the library lists the others.
    """

    key: str
    kernel: str
    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]
    candidates: tuple[Candidate, ...]


class Candidates(msgspec.Struct, frozen=True):
    """Everything that is timed for a step, with its code."""

    tunables: tuple[Tunable, ...]
    modules: dict[str, CodeModule]
    schema: int = SCHEMA

    @staticmethod
    def joined(several: Sequence[Candidates]) -> Candidates:
        """The union; what several have is there once."""
        tunables = {each.key: each for found in several for each in found.tunables}
        return Candidates(
            tuple(tunables.values()), {name: each for found in several for name, each in found.modules.items()}
        )

    def without(self, keys: Collection[str]) -> Candidates:
        """Those of the other kernels."""
        return Candidates(tuple(each for each in self.tunables if each.key not in keys), self.modules)

    def to_bytes(self) -> bytes:
        """The candidates as a compact file."""
        return packed(self)

    @staticmethod
    def from_bytes(data: bytes, where: str) -> Candidates:
        """The inverse of `to_bytes`; every field is checked against its type. Raises ArtifactError."""
        return unpacked(data, Candidates, where, "run dmc tune --prepare again")


class Choice(msgspec.Struct, frozen=True):
    """The chosen candidate of a kernel, and the microseconds of each; wrong ones are left out."""

    kernel: str
    types: str
    label: str
    us: dict[str, float]

    def __post_init__(self) -> None:
        if self.label not in self.us:
            raise ValueError(f"'{self.label}' was not measured")

    def reason(self) -> str:
        """Why it was chosen."""
        slowest = max(self.us.values())
        return f"{self.label}: {self.us[self.label]:.1f} us measured, others up to {slowest:.1f}"

    @property
    def key(self) -> str:
        """`Kernel.key` of the kernel."""
        # Only for products of the library is its own choice among the candidates.
        implementation = "cublaslt" if HEURISTIC in self.us else CUDNN if self.label == CUDNN else "triton"
        return f"{Kernel(self.kernel, (), (), 0, 0, implementation=implementation).family} {self.types}"


class Table(msgspec.Struct, frozen=True):
    """Choices by the key of their kernel. device, versions: those of the measurement."""

    choices: dict[str, Choice] = {}
    device: str = ""
    versions: dict[str, str] = {}
    architecture: str = ARCHITECTURE
    schema: int = SCHEMA

    def joined(self, other: Table) -> Table:
        """The union; choices of `other` take precedence."""
        return msgspec.structs.replace(self, choices={**self.choices, **other.choices})

    def is_of(self, product: str) -> bool:
        """Whether it was measured on a device that drivers report by names that begin with `product`."""
        return bool(product) and self.device.startswith(product)

    def alike(self, keys: Collection[str], labels: Collection[str]) -> Choice | None:
        """What was measured for kernels with one of these `Kernel.key` and these candidates; None if choices differ."""
        found = [each for each in self.choices.values() if each.key in keys and each.us.keys() <= set(labels)]
        return found[0] if len({each.label for each in found}) == 1 else None

    def text(self) -> str:
        """The table as one line of JSON, sorted by the kernels' names."""
        ordered = dict(sorted(self.choices.items(), key=lambda item: (item[1].kernel, item[0])))
        return msgspec.json.encode(msgspec.structs.replace(self, choices=ordered)).decode()

    def write(self, path: Path) -> None:
        """Writes the table as readable JSON."""
        path.write_text(msgspec.json.format(self.text(), indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def read(path: Path) -> Table:
        """The table in a file. Raises ArtifactError if it is damaged or of another schema or architecture."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ArtifactError(str(path), f"holds no tuning table ({error})", "run dmc tune") from error
        return Table.parse(data, str(path))

    @staticmethod
    def parse(data: bytes | str, where: str) -> Table:
        """The inverse of `text` and `write`. Raises like `read`."""
        try:
            table = msgspec.json.decode(data, type=Table)
        except msgspec.DecodeError as error:
            raise ArtifactError(where, f"holds no tuning table ({error})", "run dmc tune") from error
        if (table.schema, table.architecture) != (SCHEMA, ARCHITECTURE):
            fact = f"is of schema {table.schema} for {table.architecture}, expected {SCHEMA} for {ARCHITECTURE}"
            raise ArtifactError(where, fact, hint="run dmc tune again")
        return table


@functools.cache
def tables() -> Mapping[str, Table]:
    """The tables that come with dmc, by the name of their device."""
    folder = resources.files("dmc.kernels") / "tuned"
    files = sorted((each for each in folder.iterdir() if each.name.endswith(".json")), key=lambda each: each.name)
    return {each.name.removesuffix(".json"): Table.parse(each.read_bytes(), each.name) for each in files}


def label_of(algorithm: tuple[int, ...]) -> str:
    """An algorithm of cuBLASLt as a label."""
    return " ".join(f"{name.lower()}={value}" for name, value in zip(ALGORITHM, algorithm, strict=False)) or HEURISTIC


def algorithm_of(label: str) -> tuple[int, ...]:
    """The inverse of `label_of`. Raises ArtifactError for a label that names no algorithm."""
    if label == HEURISTIC:
        return ()
    algorithm = tuple(int(number) for number in re.findall(r"=(\d+)\b", label))
    if len(algorithm) != len(ALGORITHM) or label_of(algorithm) != label:
        raise ArtifactError("tuning table", f"names '{label}', not an algorithm of cuBLASLt", hint="run dmc tune again")
    return algorithm
