"""dm-pad-uneven.

* pad_uneven: the pass
* facts: what is known of padding
* kinds: what padding means to composites
* work: the padding of one operation
* known: what is known of a function's values
* flow: which values are padded
* build: tensors with padding and without
* versions: the paddings in which a value is available
* rewrite: the rewrite of a function
"""

from dmc.passes.placed.pad_uneven.pad_uneven import PadUneven

__all__ = ["PadUneven"]
