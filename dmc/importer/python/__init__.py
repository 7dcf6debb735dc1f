"""What Python does around a model, which export would lose in silence: done rightly, or refused.

* watch: notes Python calls and writes
* calls: `autograd.Function`s and hooks, kept for differentiation
* state: what Python keeps beside tensors: compared and put back
* accesses: attributes that are read before they are written
* attributes: an object's own attributes
* sharing: tensors in the same memory
"""
