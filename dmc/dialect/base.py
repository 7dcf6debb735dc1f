"""The base classes of the generated dialect.

The bindings allow only one base class, so what ops and attributes share is here and not in mixins. They
read an annotation in a class as a field of the op or attribute; other annotations are for type checkers only.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar

from dmc._mlir import ext, ir
from dmc.dialect import runs
from dmc.dialect.rules import Rule, Violation
from dmc.dialect.spec import Field, OpSpec, check, check_regions
from dmc.errors import DmcError

# The bindings look for the module of namespace `dm` in these packages; see dmc/dialect/dm.py.
ir._globals.append_dialect_search_prefix("dmc.dialect")  # pyright: ignore[reportPrivateUsage]


class DM(ext.Dialect, name="dm"):
    """The dialect; `dmc.dialect.load` loads it into a context."""

    _definitions: ClassVar[bytes] = b""

    @classmethod
    def _emit_module(cls) -> ir.Module:
        """The definitions for IRDL, in bytecode after the first time: they are long (`runs.GROUPS`), and always the
        same."""
        if not cls._definitions:
            bytecode = BytesIO()
            super()._emit_module().operation.write_bytecode(bytecode)
            cls._definitions = bytecode.getvalue()
        return ir.Module.parse(cls._definitions)


class NoMemoryEffect(ext.Pure.NoMemoryEffect):
    """Has no memory effects, so equal ops are merged and unused ones removed; but may not be hoisted out of a
    branch."""


class VerifiedOp(DM.Operation):
    """An op whose spec and rules are checked whenever MLIR verifies it."""

    if TYPE_CHECKING:
        SPEC: ClassVar[OpSpec]

    def verify_invariants(self) -> bool:
        """Called by MLIR before IRDL verifies the op, and before the op's regions are verified."""
        return _report(self, _check_and_cut)

    def verify_region_invariants(self) -> bool:
        """Called by MLIR after IRDL has verified the op, and after the op's regions have been verified."""
        runs.join(self, self.SPEC.mixed)
        return _report(self, check_regions)

    @classmethod
    def _emit_operation(cls) -> None:
        """Registers the op with IRDL."""
        fields = cls._fields
        record = cls.SPEC
        mixed = [each.name for kind in record.mixed for each in record.fields(kind)]
        cls._fields = list(runs.irdl_fields(fields, mixed))
        try:
            super()._emit_operation()
        finally:
            cls._fields = fields


class WordAttribute(DM.Attribute):
    """An attribute that is one word of a closed list."""

    if TYPE_CHECKING:
        WORDS: ClassVar[tuple[str, ...]]

    @classmethod
    def of(cls, word: str) -> Any:
        """The attribute for this word, in the current context. Raises DmcError on a word that is not in the list."""
        if word not in cls.WORDS:
            raise DmcError(f"#{cls.attr_name}", f"no such word: {word!r}", hint=f"one of {', '.join(cls.WORDS)}")
        return cls.get(ir.StringAttr.get(word))

    @property
    def value(self) -> str:
        """The word."""
        return self.params[0].maybe_downcast().value

    def parameters_hold(self) -> bool:
        """Whether the parameter is a word of the list: the parser takes any string."""
        parameter = self.params[0].maybe_downcast()
        return isinstance(parameter, ir.StringAttr) and parameter.value in self.WORDS


class ParametrisedAttribute(DM.Attribute):
    """An attribute whose parameters can be checked: `get` of the bindings takes anything."""

    if TYPE_CHECKING:
        PARAMETERS: ClassVar[tuple[Field, ...]]

    def __init_subclass__(cls, **options: Any) -> None:
        """Adds accessors that return parameters in their own class; those of the bindings return `Attribute`."""
        super().__init_subclass__(**options)
        for i, parameter in enumerate(cls.PARAMETERS):
            setattr(cls, parameter.name, property(lambda self, i=i: self.params[i].maybe_downcast()))

    def parameters_hold(self) -> bool:
        """Whether every parameter satisfies its constraint."""
        given = self.params
        return all(each.must_be.holds(given[i].maybe_downcast()) for i, each in enumerate(self.PARAMETERS))


def _check_and_cut(op: Any) -> None:
    check(op)
    runs.cut(op, op.SPEC.mixed)


def _report(op: Any, checker: Rule) -> bool:
    try:
        checker(op)
    except Violation as violation:
        op.location.emit_error(f"{op.OPERATION_NAME}: {violation}")
        return False
    return True
