"""dm-channels-last.

* channels_last: the pass
* images: where each value lies
* convolutions: as sums of products in any layout
* generics: loops over values in other layouts
* pieces: padding, slices and reshapes in other layouts
* orders: orders of dimensions
"""

from dmc.passes.scheduled.tensors.channels_last.channels_last import ChannelsLast

__all__ = ["ChannelsLast"]
