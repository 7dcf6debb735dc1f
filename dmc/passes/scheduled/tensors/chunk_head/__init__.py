"""dm-chunk-head.

* chunk_head: the pass
* head: what is computed of the rows of logits
* pieces: values piece by piece
* definitions: what composites on pieces mean
"""

from dmc.passes.scheduled.tensors.chunk_head.chunk_head import ChunkHead

__all__ = ["ChunkHead"]
