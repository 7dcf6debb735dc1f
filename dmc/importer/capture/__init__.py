"""Model and loss → one exported graph.

* capture: from parameters and batch to the loss
* objective: model and loss as one module
* registered: parameters and buffers, and what a call may do with them
* stand_ins: for parameters and buffers on the device meta
* buffers: such that their modules compute
* own_loss: the loss of a model that computes it itself
* tree: nested containers of tensors
* export: `torch.export`, with its failures as ours
* failures: what export raises, told by what the user did
* precisions: modules that compute in other types than the step
* experts: those of `transformers`, while a model is exported
* flex: `flex_attention`, while a model is exported
* devices: tensors that a model puts on one
* eager_strides: strides of results while a model is exported
* doubles: constants of float64 that end in float32
* checks: what an exported graph may contain
* turned: shapes that are changed in place
* overlaps: writes into tensors whose elements share memory
* indices: inputs that are read as indices
"""
