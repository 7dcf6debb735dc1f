"""Runs the programs of all ranks in numpy, in any interleaving that their lanes and events allow.

For tests and small jobs: proven properties must hold here, and refused jobs can be shown to go wrong. Only
`dmc.interpreter.bodies`, which evaluates kernels, needs MLIR.
"""

from dmc.interpreter.calls import Call, run_calls
from dmc.interpreter.interpreter import Deadlock, run
from dmc.interpreter.kernels import KernelFunction, mixing_kernels

__all__ = ["Call", "Deadlock", "KernelFunction", "mixing_kernels", "run", "run_calls"]
