"""Which computations are fused into one kernel, and the cost of a kernel.

* alike: operations that are equal but for what they read
* graph: `@step` as a graph of computations and views
* panels: matrices that lie in panels of columns
* inlined: casts and movements that every reader computes itself
* contractions: sums of products
* cost: floating-point operations and bytes of a kernel
* casts: operations that only cast elements
* column_sums: sums over all rows of a matrix
* cheap: operations that cost less than reading their result
* shapes: operations that can share loops
* decompositions: the functions that define composites
* layouts: tensors as strided views of others
* problems: composites as problems for `dmc.kernels`
* reads: operations' reads from memory
* clusters: merging nodes of an acyclic graph
* waits: which movements kernels wait for
* groups: operations that share a kernel
* traded: the values that kernels write and read, by number
* fusion: which operations share a kernel
"""
