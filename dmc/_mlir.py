"""The only file that imports an MLIR distribution; everything else says `from dmc._mlir import ir`.

The whole compiler uses the bindings in the torch-mlir wheel. Importing them does not import torch, so
`dmc-opt` starts fast.
"""

import sys
from types import ModuleType

from torch_mlir import ir, passmanager, rewrite
from torch_mlir.dialects import arith, builtin, ext, func, linalg, math, scf, tensor

__all__ = ["arith", "builtin", "ext", "func", "ir", "linalg", "math", "passmanager", "rewrite", "scf", "tensor"]

# Dialects without classes in Python. The bindings search for a module again at each of their operations, unless it
# exists.
for _dialect in ("torch_c", "iree_tensor_ext"):
    sys.modules.setdefault(f"torch_mlir.dialects.{_dialect}", ModuleType(_dialect))
