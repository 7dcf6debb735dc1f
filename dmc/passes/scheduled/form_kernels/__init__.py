"""dm-form-kernels.

* form_kernels: the pass
* whole_composites: composites as kernels, with the views around them
* transposed_batches: products that read transposed matrices in place
* outline: groups of operations as kernels
* order: kernels and movements in topological order
* pattern: what kernels of repeated layers have in common
* generics: equal loops are fused into one
* bodies: the functions that kernels run, deduplicated
* report: what `reasons` prints
"""

from dmc.passes.scheduled.form_kernels.form_kernels import FormKernels

__all__ = ["FormKernels"]
