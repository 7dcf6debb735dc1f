"""dm-partition.

* partition: the pass
* versions: the placements in which a value is available, and reshards into others
* local_ops: attributes of operations and types of functions, for one rank's part
* composites: decompositions of composites, for one rank's part
* vocabulary: embeddings whose table is split by rows
* splats: splats in other shapes
"""

from dmc.passes.placed.partition.partition import Partition

__all__ = ["Partition"]
