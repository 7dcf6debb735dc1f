"""Readable names of values, gradients and storages.

* values: parameters, inputs and gradients of form imported
* updates: the gradient of each parameter
* storages: the storages of form scheduled
* gradients: the storages of gradients there
* buckets: the members of a bucket
"""
