"""A planned job → one program for IREE, in its stream dialect at command level.

* one_lane: a plan for an executor with one queue
* regions: regions of work between events
* collectives: movements between ranks in one memory
* text: the text of the dialect
* matmul_tiles: tiles of matrix products
* panel_packing: tiles of loops that put columns into panels
* subnormals: numbers below the smallest normal one
* program: the module
"""
