"""A module's dataflow as plain data that is invariant under the passes from placed to planned.

* recorder: records the module at each point of the pipeline
* dataflow: the dataflow of a module
* reader: node by node: the builder used by all rules
* elements: computations, element by element
* moves: operations that move elements
* text: operations as text
"""
