"""What survives differentiation, in operations that torch-mlir lowers to linalg alone, and well.

* decompositions: the table
* constants: constant tensors
* conversions: those that undo each other, and of more than is read
* borrowed: PyTorch's own
* nonfinite: infinities and NaN
* functions: functions that stay accurate
* special: special functions, and rounding to a grid
* approximated: others, by polynomials
* angles: sine and cosine of any angle
* power: powers whose base may be negative
* scalars: Python scalars as operands
* sums: reductions, and sums of products of three
* scans: running sums, products and extremes
* places: reads and writes at computed places
* scatters: the same along one dimension
* convolutions: transposed and grouped ones, and gradients
* matrices: factorisations of small ones
* eigen: eigenvalues and singular values of small ones
* selection: largest and smallest elements, sorting
"""
