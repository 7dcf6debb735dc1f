"""Graphs → linalg on tensors through torch-mlir, with composites kept whole.

* lowering: one graph → one function
* operators: composites during torch-mlir's lowering
* windows: pooling and convolution read only what their windows cover
"""
