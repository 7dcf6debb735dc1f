"""dm-verify.

* verify: the pass
* dumps: what a step computes, from the dumps of its forms
"""

from dmc.passes.any.verify.verify import Verify

__all__ = ["Verify"]
