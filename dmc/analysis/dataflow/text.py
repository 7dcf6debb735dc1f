"""Operations as text that determines their results, given their operands."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

from dmc._mlir import ir
from dmc.memo import once, remembered

# Longer text, such as a table of constants, is replaced by its hash.
_LONGEST = 160
# No result depends on these attributes: labels, and operand segment sizes, which the operation's name implies.
_OF_NO_MATTER = ("dm.", "operandSegmentSizes")


@dataclass
class Text:
    """Text independent of an operation's context; `taken`: the values it uses from outside, use by use.

    Values are numbered in order of appearance, so names do not matter, nor whether two equal values are the same.
    """

    taken: list[ir.Value] = field(default_factory=list[ir.Value])
    _inside: dict[ir.Value, str] = field(default_factory=dict[ir.Value, str])

    def of(self, op: ir.Operation) -> str:
        """The operation, with its regions."""
        operands = ",".join([f"{self._value(operand)}:{once(str, operand.type)}" for operand in op.operands])
        results = ",".join(self._name(result) for result in op.results)
        regions = "".join(self._region(region) for region in op.regions)
        return f"{results}={op.name}({operands}){attributes_text(op)}{regions}"

    def _region(self, region: ir.Region) -> str:
        blocks: list[str] = []
        for block in region:
            arguments = ",".join(self._name(argument) for argument in block.arguments)
            blocks.append(f"({arguments}){';'.join(self.of(view.operation) for view in block.operations)}")
        return "{" + "|".join(blocks) + "}"

    def _name(self, value: ir.Value) -> str:
        self._inside[value] = f"%{len(self._inside)}"
        return f"{self._inside[value]}:{once(str, value.type)}"

    def _value(self, value: ir.Value) -> str:
        if value in self._inside:
            return self._inside[value]
        self.taken.append(value)
        return f"${len(self.taken) - 1}"


def attributes_text(op: ir.Operation) -> str:
    """The attributes of an operation that determine its results."""
    found = [
        f"{name}={attribute_text(each)}" for name, each in op.attributes.items() if not name.startswith(_OF_NO_MATTER)
    ]
    return "{" + ",".join(found) + "}" if found else ""


@remembered
def _hashed(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


@remembered
def attribute_text(attribute: ir.Attribute) -> str:
    """An attribute as text, or as the hash of it."""
    text = str(attribute)
    return text if len(text) <= _LONGEST else _hashed(text)


def shortened(text: str) -> str:
    """Text, or the hash of it."""
    return text if len(text) <= _LONGEST else _hashed(text)
