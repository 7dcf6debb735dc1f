"""dm-split-all-reduce.

* split_all_reduce: the pass
* regions: the operations that can work on a piece of a reduction
* pieces: the kernel that computes one rank's piece
"""

from dmc.passes.requested.split_all_reduce.split_all_reduce import SplitAllReduce

__all__ = ["SplitAllReduce"]
