"""Reads `llvm-tblgen --dump-json` of the dialect's ODS into plain records.

A constraint or trait that is not known here is an error: what the generated dialect would not check must not be
written in ODS.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Record = Mapping[str, Any]

# ODS constraint: the predicate in dmc/dialect/constraints.py, and what IRDL is told.
TYPE_CONSTRAINTS = {
    "AnyStaticShapeTensor": ("c.is_static_tensor", "ir.RankedTensorType"),
    "Dm_FlatTensor": ("c.is_flat_tensor", "ir.RankedTensorType"),
    "AnyFloat": ("c.is_float", "Any"),
    "AnySignlessInteger": ("c.is_signless_integer", "ir.IntegerType"),
    "Index": ("c.is_index", "ir.IndexType"),
    "NoneType": ("c.is_none", "ir.NoneType"),
}

# ODS constraint: predicate, IRDL, the type a builder takes, the conversion in dmc/dialect/build.py.
ATTR_CONSTRAINTS = {
    "I64Attr": ("c.is_i64", "ir.IntegerAttr", "int", "b.i64"),
    "StrAttr": ("c.is_string", "ir.StringAttr", "str", "b.string"),
    "SymbolNameAttr": ("c.is_string", "ir.StringAttr", "str", "b.string"),
    "TypeAttr": ("c.is_type", "ir.TypeAttr", "ir.Type", "b.type_"),
    "FlatSymbolRefAttr": ("c.is_symbol", "ir.FlatSymbolRefAttr", "str", "b.symbol"),
    "DictionaryAttr": ("c.is_dictionary", "ir.DictAttr", "Mapping[str, ir.Attribute]", "b.dictionary"),
    "DenseI64ArrayAttr": ("c.is_i64_array", "Any", "Sequence[int]", "b.i64_array"),
    "I64ElementsAttr": ("c.is_i64_elements", "Any", "Sequence[tuple[int, int]]", "b.pairs"),
}

ATTR_REFINEMENTS = {"IntNonNegative": "c.is_non_negative"}

# ODS trait: what is attached to the op at run time. None: the generator or a hand-written rule checks it.
TRAITS = {
    "Pure": "ext.Pure",
    "NoMemoryEffect": "NoMemoryEffect",
    "IsolatedFromAbove": "ir.IsIsolatedFromAboveTrait",
    "Terminator": "ir.IsTerminatorTrait",
    "NoTerminator": "ir.NoTerminatorTrait",
    "SingleBlock": None,
    "Symbol": None,
}

ARITIES = {"Variadic": "many", "Optional": "optional", "OptionalAttr": "optional"}


@dataclass(frozen=True)
class Constraint:
    """What a value must be: its ODS name, in words, as a predicate, for IRDL; how a builder takes and converts it."""

    name: str
    text: str
    check: str
    irdl: str
    takes: str = "ir.Attribute"
    convert: str = ""

    @property
    def constant(self) -> str:
        """The name of the constraint in the generated dialect."""
        words = re.findall(r"[A-Z][a-z]*\d*|\d+", self.name.removeprefix("Dm_"))
        return "_".join(words).upper()

    @property
    def is_own(self) -> bool:
        """Whether the predicate needs a class of the dialect."""
        return "is_a(" in self.check


@dataclass(frozen=True)
class Field:
    """An operand, result, attribute or parameter."""

    name: str
    constraint: Constraint
    arity: str = "one"
    is_type: bool = False


@dataclass(frozen=True)
class Def:
    """A type or attribute of the dialect. `words` are the words of a word attribute, else empty."""

    cls: str
    mnemonic: str
    summary: str
    parameters: tuple[Field, ...]
    words: tuple[str, ...]


@dataclass(frozen=True)
class Op:
    """An op of the dialect. `traits` are Python expressions; the rest is as in `dmc.dialect.spec.OpSpec`."""

    mnemonic: str
    summary: str
    operands: tuple[Field, ...]
    results: tuple[Field, ...]
    attributes: tuple[Field, ...]
    regions: tuple[str, ...]
    traits: tuple[str, ...]
    same_types: tuple[tuple[str, ...], ...]
    parents: tuple[str, ...]
    is_hand_built: bool

    @property
    def cls(self) -> str:
        """The name of the Python class."""
        return "".join(word.capitalize() for word in self.mnemonic.split("_")) + "Op"


class Ods:
    """The records of one dump, by name."""

    def __init__(self, dump: Path) -> None:
        self._records: dict[str, Any] = json.loads(dump.read_text())

    def types(self) -> list[Def]:
        """The dialect's types, in the order of their names."""
        return [self._def(record) for record in self._instances("TypeDef")]

    def attributes(self) -> list[Def]:
        """The dialect's attributes; those that others refer to first."""
        return [self._def(record) for record in self._instances("AttrDef")]

    def ops(self) -> list[Op]:
        """The dialect's ops, in the order of their names."""
        return [self._op(record) for record in self._instances("Op")]

    def _instances(self, base: str) -> Iterator[Record]:
        for name in sorted(self._records["!instanceof"][base]):
            record = self._records[name]
            if (record.get("opDialect") or record.get("dialect"))["def"] == "Dm_Dialect":
                yield record

    def _def(self, record: Record) -> Def:
        fields = [
            Field(name, self._constraint(self._records[ref["def"]]["constraint"]), is_type=self._is_type(ref))
            for ref, name in record["parameters"]["args"]
        ]
        words = tuple(record.get("words") or ())
        return Def(record["cppClassName"], record["mnemonic"], record["summary"], tuple(fields), words)

    def _is_type(self, parameter: Record) -> bool:
        constraint = self._records[self._records[parameter["def"]]["constraint"]["def"]]
        return "TypeConstraint" in constraint["!superclasses"]

    def _op(self, record: Record) -> Op:
        arguments = [self._field(arg) for arg in record["arguments"]["args"]]
        traits = [self._records[ref["def"]] for ref in record["traits"]]
        return Op(
            mnemonic=record["opName"],
            summary=record["summary"],
            operands=tuple(each for each in arguments if each.is_type),
            results=tuple(self._field(arg) for arg in record["results"]["args"]),
            attributes=tuple(each for each in arguments if not each.is_type),
            regions=tuple(self._region(arg) for arg in record["regions"]["args"]),
            traits=tuple(trait for each in traits if (trait := _attached(each))),
            same_types=tuple(tuple(each["values"]) for each in traits if "AllTypesMatch" in each["!superclasses"]),
            parents=tuple(parent for each in traits for parent in _parents(each)),
            is_hand_built=bool(record["handBuilt"]),
        )

    def _region(self, arg: list[Any]) -> str:
        ref, name = arg
        if self._records[ref["def"]]["summary"] != "region with 1 blocks":
            raise SystemExit(f"region '{name}': only SizedRegion<1> is known")
        return name

    def _field(self, arg: list[Any]) -> Field:
        ref, name = arg
        record = self._records[ref["def"]]
        for wrapper in ("Variadic", "Optional", "OptionalAttr"):
            if wrapper in record["!superclasses"]:
                inner = record["baseAttr" if wrapper == "OptionalAttr" else "baseType"]
                return Field(name, self._constraint(inner), ARITIES[wrapper], is_type=wrapper != "OptionalAttr")
        return Field(name, self._constraint(ref), is_type="TypeConstraint" in record["!superclasses"])

    def _constraint(self, ref: Record) -> Constraint:
        record = self._records[ref["def"]]
        name, bases, text = record["!name"], record["!superclasses"], record["summary"]
        if name.startswith("anonymous"):
            raise SystemExit(f"constraint '{text}': give it a name in ODS; the generated dialect refers to it by name")
        if "AttrDef" in bases or "TypeDef" in bases:
            return _own(record)
        if name in TYPE_CONSTRAINTS:
            return Constraint(name, text, *TYPE_CONSTRAINTS[name])
        if name in ATTR_CONSTRAINTS:
            return Constraint(name, text, *ATTR_CONSTRAINTS[name])
        if "AnyTypeOf" in bases:
            parts = [self._constraint(each) for each in record["allowedTypes"]]
            irdl = "Any" if any(part.irdl == "Any" for part in parts) else " | ".join(part.irdl for part in parts)
            return Constraint(name, text, f"c.any_of({', '.join(part.check for part in parts)})", irdl)
        if "ConfinedAttr" in bases:
            base = self._constraint(record["baseAttr"])
            refinements = [ATTR_REFINEMENTS[each["def"]] for each in record["attrConstraints"]]
            check = f"c.all_of({', '.join([base.check, *refinements])})"
            return Constraint(name, text, check, base.irdl, base.takes, base.convert)
        if "TypedArrayAttrBase" in bases:
            element = self._constraint(record["elementAttr"])
            takes = f"Sequence[{element.takes}]"
            convert = f"b.array_of({element.convert})" if element.convert else "ir.ArrayAttr.get"
            return Constraint(name, text, f"c.array_of({element.check})", "ir.ArrayAttr", takes, convert)
        raise SystemExit(f"{name} ({text}): no predicate is known for this constraint; add one to tools/ods.py")


def _own(record: Record) -> Constraint:
    cls = record["cppClassName"]
    sigil = "!" if "TypeDef" in record["!superclasses"] else "#"
    text = f"{sigil}dm.{record['mnemonic']}"
    if words := record.get("words"):
        text = f"{text} of {', '.join(words)}"
        return Constraint(record["!name"], text, f"c.is_a({cls})", cls, "str", f"{cls}.of")
    return Constraint(record["!name"], text, f"c.is_a({cls})", cls, cls, "")


def _attached(trait: Record) -> str | None:
    name = trait["!name"]
    if name in TRAITS:
        return TRAITS[name]
    if "AllTypesMatch" in trait["!superclasses"] or _parents(trait):
        return None
    raise SystemExit(f"trait {name}: not known; add it to tools/ods.py")


def _parents(trait: Record) -> list[str]:
    """The names of the ops that a `HasParent` or `ParentOneOf` trait allows."""
    match = re.fullmatch(r"HasParent<(.*)>::Impl", trait.get("trait") or "")
    names = [] if match is None else [name.strip() for name in match[1].split(",")]
    return ["builtin.module" if name == "::mlir::ModuleOp" else f"dm.{name[: -len('Op')].lower()}" for name in names]
