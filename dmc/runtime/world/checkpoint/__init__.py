"""Sharded checkpoints: each rank writes its part, asynchronously; commits are atomic over all ranks.

`step-00000100/` contains one shard per rank and `manifest.json`, which locates the parts of each tensor. The directory
has a temporary name until everything is on disk. Of several replicas, one rank writes. The manifest describes the
layout of tensors on the mesh of the job that wrote them, so that jobs on any mesh can read them.

* manifest: the layout of a checkpoint's tensors, and which checkpoints a directory holds
* writer: writes them
* reader: reads them
"""

from dmc.runtime.world.checkpoint.manifest import latest
from dmc.runtime.world.checkpoint.reader import read_all, read_checkpoint
from dmc.runtime.world.checkpoint.writer import CheckpointWriter

__all__ = ["CheckpointWriter", "latest", "read_all", "read_checkpoint"]
