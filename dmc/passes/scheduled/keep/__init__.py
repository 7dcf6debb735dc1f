"""dm-keep.

* keep: the pass
* step: a step whose kernels may run again
* replay: its memory if some of them do
* choice: which ones, under a cap
* words: which ones, by the user's word
* rewrite: the step with them
* report: what `reasons` prints
"""

from dmc.passes.scheduled.keep.keep import Keep

__all__ = ["Keep"]
