"""dm-form-kernels.

* form_kernels: the pass
* whole_composites: composites as kernels, with the views around them
* transposed_batches: products that read transposed matrices as they lie
* outline: groups of operations as kernels, in an order in which they can run
* generics: loops that are alike become one
* bodies: the functions that kernels run, equal ones once
* report: what `reasons` prints
"""

from dmc.passes.scheduled.form_kernels.form_kernels import FormKernels

__all__ = ["FormKernels"]
