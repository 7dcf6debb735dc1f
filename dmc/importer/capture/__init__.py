"""Model and loss → one exported graph.

* capture: from parameters and batch to the loss
* objective: model and loss as one module
* tree: nested containers of tensors
* export: `torch.export`, with its failures as ours
* checks: what an exported graph may contain
* overlaps: writes into tensors whose elements share memory
* indices: inputs that are read as indices
"""
