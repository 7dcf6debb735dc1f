"""dm-verify.

* verify: the pass
* dumps: a step's dataflow, from the dumps of its forms
"""

from dmc.passes.any.verify.verify import Verify

__all__ = ["Verify"]
