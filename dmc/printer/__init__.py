"""IR as a person reads it: one line for an operation, with names, types and operands beside each other.

What it prints is not MLIR: no parser reads it again. Values have the names that MLIR's own printer gives them.

* attributes: types and attributes in a few signs
* scopes: names of values; constants where they are read
* loops: the bodies of `linalg.generic` as expressions
* formats: what stands in front on the line of an operation
* modules: functions, operations and regions
"""

from dmc.printer.modules import printed

__all__ = ["printed"]
