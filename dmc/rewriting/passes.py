"""The base of every pass, and the registry of passes."""

from __future__ import annotations

import inspect
import re
from typing import Any, ClassVar, Self

from dmc._mlir import ir
from dmc.rewriting.options import describe_options, format_options, parse_options

REGISTRY: dict[str, type[Pass]] = {}


class Pass:
    """A rewrite of a whole module. A subclass is a frozen dataclass whose fields are its textual options.

    `dm-bucket{bytes=4096}` is `Bucket(bytes=4096)`. Subclassing registers the pass; a second owner of a name raises
    ValueError at import. `dmc-opt --list-passes` shows the first line of the docstring.
    """

    name: ClassVar[str]
    # Whether a pass of a module with stages takes all of them at once.
    is_whole: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not re.fullmatch(r"dm(-[a-z0-9]+)+", cls.name):
            raise ValueError(f"not a pass name: {cls.name}")
        if cls.name in REGISTRY:
            raise ValueError(f"pass name taken: {cls.name}")
        REGISTRY[cls.name] = cls

    def run(self, module: ir.Module) -> None:
        """Rewrites `module` in place; raises DmcError, naming the operation, for what it cannot handle."""
        raise NotImplementedError(f"{type(self).__name__}.run")

    @classmethod
    def from_text(cls, options: str) -> Self:
        """The pass with the given textual options; raises PipelineError for an invalid option."""
        return cls(**parse_options(cls, cls.name, options))

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return inspect.cleandoc(cls.__doc__ or "").partition("\n")[0]

    @classmethod
    def describe_options(cls) -> tuple[str, ...]:
        """One line per option: `name: type = default`."""
        return tuple(describe_options(cls))

    def __str__(self) -> str:
        options = format_options(self)
        return f"{self.name}{{{options}}}" if options else self.name
