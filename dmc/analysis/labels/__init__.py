"""What people call values, gradients and storages.

* values: parameters, inputs and gradients of form imported
* updates: which value is the gradient of which parameter
* storages: the storages of form scheduled
* gradients: where gradients lie there
* buckets: what went into a bucket
"""
