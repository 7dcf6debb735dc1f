"""dm-pad-classes.

* pad_classes: the pass
* widened: values with more elements along a dimension
"""

from dmc.passes.scheduled.tensors.pad_classes.pad_classes import PadClasses

__all__ = ["PadClasses"]
