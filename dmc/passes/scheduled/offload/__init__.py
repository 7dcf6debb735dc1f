"""dm-offload.

* offload: the pass
* trips: values that may be in host memory while nothing touches them
* copies: when they leave and return, so that kernels do not wait
* choice: which ones, under a cap
* rewrite: the step with their movements
* report: what `reasons` prints
"""

from dmc.passes.scheduled.offload.offload import Offload

__all__ = ["Offload"]
