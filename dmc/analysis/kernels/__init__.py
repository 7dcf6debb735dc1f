"""Which computations are fused into one kernel, and the cost of a kernel.

* graph: `@step` as a graph of computations and views
* cost: floating-point operations and bytes of a kernel
* casts: operations that only cast elements
* shapes: operations that can share loops
* decompositions: the functions that define composites
* layouts: tensors as strided views of others
* problems: composites as problems for `dmc.kernels`
* reads: operations' reads from memory
* group: the operations that fusion has brought together so far
* clusters: merging nodes of an acyclic graph
* waits: which movements kernels wait for
* fusion: which are merged: greedily, by bytes saved
"""
