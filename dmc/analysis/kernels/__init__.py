"""Which computations become one kernel, and what a kernel costs.

* graph: `@step` as a graph of computations and views
* cost: floating-point operations and bytes of a kernel
* casts: operations that cast elements and do no more
* shapes: operations that can share loops
* decompositions: the functions that say what composites mean
* layouts: tensors as strided views of others
* problems: composites as problems for `dmc.kernels`
* reads: what operations read from memory, and how
* clusters: merging nodes of a graph that stays acyclic
* fusion: which are merged: what saves the most bytes first
"""
