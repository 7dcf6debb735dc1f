"""Graphs → linalg on tensors through torch-mlir, with composites kept whole.

* lowering: one graph → one function
* operators: composites while torch-mlir works
* windows: pooling and convolution read no more than their windows reach
"""
