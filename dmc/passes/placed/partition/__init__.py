"""dm-partition.

* partition: the pass
* versions: the placements in which a value is available, and reshards into others
* composites: decompositions of composites, for one rank's part
* vocabulary: embeddings whose table is split by rows
"""

from dmc.passes.placed.partition.partition import Partition

__all__ = ["Partition"]
