"""Complex numbers inside a model.

* pairs: of real tensors, and what operations mean for them
* rules: which operations have a meaning for them
* fourier: discrete Fourier transforms
"""
