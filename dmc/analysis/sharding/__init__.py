"""A placement for every value of a function: what dm-propagate-sharding decides and dm-partition carries out.

* ends: how the tensors of `@step` come and go
* pins: how single values must lie
* decisions: what is decided for an operation
* choice: the decision for one operation: what moves the fewest bytes
* propagation: the decisions for all: forward, backward, forward
* wishes: the sweep backward: what the readers of a value want
* attributes: decisions as attributes, and back
* table: decisions for people
"""
