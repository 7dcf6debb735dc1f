"""What a module computes, as plain data in which no pass from placed to planned changes a value.

* recorder: looks at the module at each point of its way
* dataflow: what a module computes
* reader: node by node: what all rules write with
* elements: what computations make of elements
* moves: what moves elements
* text: operations as text
"""
