"""dm-keep.

* keep: the pass
* forward: the kernels of the forward pass, and those that may run again
* replay: the memory of a step in which some of them do
* choice: which ones, under a cap
* words: which ones, by the user's word
* rewrite: the step with them
* report: what `reasons` prints
"""

from dmc.passes.scheduled.keep.keep import Keep

__all__ = ["Keep"]
