"""PyTorch → form imported, in the order of the work:

* step: model, loss and optimizer → the module and its first state
* traced: a program that was asked for, and traced
* shared_state: the state that all programs of a step share
* capture: model and loss → one exported graph
* python: side effects of Python code that export would lose
* forward: the exported graph, run with composites in place of what they mean
* composites: the composites, one file each
* layers: repeated layers, traced once
* evaluation: the forward pass in eval mode alone, as a program beside a step
* differentiate: forward, loss and backward as one graph
* update: the optimizer as a graph
* assembly: a graph of parts, each traced once
* decompositions: what remains after differentiation, as operations that torch-mlir lowers well
* linalg: graphs → linalg on tensors
* link: both halves joined into `@step`
* advice: facts and hints that errors of several parts give
* origin: module path and source line of every operation
* torch_internals: private names of PyTorch
* versions: the versions of PyTorch that are supported
"""

from dmc.importer.versions import check_version

check_version()
