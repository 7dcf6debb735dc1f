"""Textual pass options: `opt=1 other=a,b` to typed dataclass fields and back."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from dmc.errors import PipelineError
from dmc.rewriting.text import split

_TRUE = ("true", "1")
_FALSE = ("false", "0")


def parse_options(owner: type[Any], name: str, text: str) -> dict[str, Any]:
    """The keyword arguments of the dataclass `owner` given by `text` (`opt=1 flag list=a,b`).

    A flag without a value is true. Dashes in option names become underscores. Integers are counts and sizes: 0 or more.
    Raises PipelineError, naming the pass `name`, for an option that does not exist, is given twice, is missing, or does
    not have its field's type.
    """
    hints = get_type_hints(owner)
    known = {field.name: field for field in fields(owner)}
    values: dict[str, Any] = {}
    for raw, value in _pairs(text):
        option = raw.replace("-", "_")
        if option not in known:
            raise PipelineError(name, f"no option '{raw}'", _options_hint(name, known))
        if option in values:
            raise PipelineError(name, f"option '{raw}' is given twice")
        values[option] = _convert(name, option, hints[option], value)
    for option, field in known.items():
        if option not in values and field.default is MISSING and field.default_factory is MISSING:
            raise PipelineError(name, f"option '{option}' is missing", f"write {name}{{{option}=...}}")
    return values


def format_options(instance: Any) -> str:
    """The options of a pass instance that differ from their defaults, as `parse_options` reads them."""
    changed = (field for field in fields(instance) if getattr(instance, field.name) != field.default)
    return " ".join(f"{field.name}={_format(getattr(instance, field.name))}" for field in changed)


def describe_options(owner: type[Any]) -> Iterator[str]:
    """One line per option: `name: type = default`."""
    hints = get_type_hints(owner)
    for field in fields(owner):
        default = "" if field.default is MISSING else f" = {_format(field.default)}"
        yield f"{field.name}: {_type_name(hints[field.name])}{default}"


def _pairs(text: str) -> Iterator[tuple[str, str | None]]:
    for item in split(text, " \t\n"):
        option, equals, value = item.partition("=")
        yield option, _unquote(value) if equals else None


def _unquote(value: str) -> str:
    quoted = len(value) >= 2 and value[0] + value[-1] in ('""', "''", "{}")
    return value[1:-1] if quoted else value


def _convert(name: str, option: str, kind: Any, value: str | None) -> Any:
    if value is None:
        if kind is bool:
            return True
        raise PipelineError(name, f"option '{option}' has no value", f"write {option}=<{_type_name(kind)}>")
    try:
        return _parse(kind, value)
    except ValueError:
        hint = "integers are counts and sizes: 0 or more" if value.startswith("-") else ""
        raise PipelineError(name, f"option '{option}' expects {_type_name(kind)}, got '{value}'", hint) from None


def _parse(kind: Any, value: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return _one_of(arguments, value)
    if origin is tuple:
        return tuple(_parse(arguments[0], _unquote(item)) for item in split(value, ","))
    if origin in (Union, types.UnionType):
        return None if value == "none" else _parse(next(a for a in arguments if a is not type(None)), value)
    if kind is bool:
        return _one_of(_TRUE + _FALSE, value.lower()) in _TRUE
    if kind is int:
        return _count(value)
    if kind in (float, str):
        return kind(value)
    raise TypeError(f"a pass option cannot have the type {kind}")


def _count(text: str) -> int:
    if (number := int(text)) < 0:
        raise ValueError(text)
    return number


def _one_of(choices: tuple[Any, ...], value: str) -> Any:
    if value not in choices:
        raise ValueError(value)
    return value


def _format(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(_format(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    text = "none" if value is None else str(value)
    if text and not set(text) & set(" \t\n,{}()'\""):
        return text
    return f"'{text}'" if '"' in text else f'"{text}"'


def _type_name(kind: Any) -> str:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "one of " + ", ".join(str(choice) for choice in arguments)
    if origin is tuple:
        return f"a list of {_type_name(arguments[0])}"
    if origin in (Union, types.UnionType):
        return " or ".join("none" if a is type(None) else _type_name(a) for a in arguments)
    return getattr(kind, "__name__", str(kind))


def _options_hint(name: str, known: Mapping[str, Field[Any]]) -> str:
    return f"options of {name}: {', '.join(known)}" if known else f"{name} takes no options"
