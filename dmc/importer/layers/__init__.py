"""Repeated layers of a model, which are traced once.

* segments: parts of an exported graph that are equal
* layer: forward and backward pass of a part, as two graphs
* calls: a layer as one operation while a step is traced, and its graphs in the operation's place
* outline: the layers of a captured model
"""
