"""dm-recompute.

* recompute: the pass
* sums: residual sums that may be made again, each from the one before
* regions: values that can be made again from others, apart from those of other regions
* flow: a minimum cut of a network
* cut: what of a region is kept, and what making the rest again costs
* places: where the backward pass makes values again
* rewrite: values made again in the backward pass
* readers: values made again by each reader
* report: what `reasons` prints
"""

from dmc.passes.scheduled.tensors.recompute.recompute import Recompute

__all__ = ["Recompute"]
