"""A placement for every value of a function, decided by dm-propagate-sharding and implemented by dm-partition.

* forward: the forward pass of a step
* pairs: the layers in it that Megatron splits
* ends: the placements of arguments and results of `@step`
* pins: required placements of single values
* decisions: the decision for an operation
* choice: chooses a decision: the fewest bytes moved
* propagation: all decisions: forward, backward, forward
* lookups: embeddings looked up where the columns of their tables are
* views: what moves nothing, and so keeps any placement
* wishes: the backward sweep: the preferences of a value's readers
* attributes: decisions as attributes, and back
* table: decisions as readable text
"""
