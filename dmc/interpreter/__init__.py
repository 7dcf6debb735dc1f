"""Runs the programs of all ranks in numpy, in any interleaving that their lanes and events allow.

For tests and for small jobs: what is proven of a job must hold here, and what a proof refuses can be shown to go wrong.
`dmc.interpreter.bodies` takes kernels from MLIR; nothing else here needs it.
"""

from dmc.interpreter.interpreter import Deadlock, run
from dmc.interpreter.kernels import KernelFunction, mixing_kernels

__all__ = ["Deadlock", "KernelFunction", "mixing_kernels", "run"]
