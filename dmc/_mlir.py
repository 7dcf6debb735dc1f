"""The only file that imports an MLIR distribution; everything else says `from dmc._mlir import ir`.

The whole compiler uses the bindings in the torch-mlir wheel. Importing them does not import torch, so
`dmc-opt` starts fast.
"""

from torch_mlir import ir, passmanager, rewrite
from torch_mlir.dialects import arith, ext, func, linalg, math, scf, tensor

__all__ = ["arith", "ext", "func", "ir", "linalg", "math", "passmanager", "rewrite", "scf", "tensor"]
