"""Random numbers, as functions of the step's seed and counter.

* randomness: separate draws for each place that draws, and dropout
* streams: numbers of one place
* distributions: PyTorch's operations that draw
"""
