"""dm-select-kernels.

* select_kernels: the pass
* asked: what the plan wants kernels of some modules computed by
"""

from dmc.passes.scheduled.select_kernels.select_kernels import SelectKernels, bodies

__all__ = ["SelectKernels", "bodies"]
