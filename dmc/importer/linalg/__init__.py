"""Graphs → linalg on tensors through torch-mlir, with composites kept whole.

* lowering: one graph → one function
* apart: torch-mlir's passes in a process of their own
* torch_passes: what that process runs
* culprit: the operation on which it crashes
* operators: composites during torch-mlir's lowering
* windows: pooling and convolution read only what their windows cover
"""
