"""What masks choose, of which data decide the number: computed of whole tensors.

* values: whole tensors, and what is chosen of them
* parts: how operands take part in a call, and what may not meet
* calls: a call, and the table of rules
* selecting: where masks choose, and where chosen numbers select
* along: dimensions of such sizes that stay
* rows: elements and rows, one by one
* reductions: sums, means, extremes
* losses: of classes and of elements
* products: of matrices
* shapes: views, and tensors side by side
* writes: of what is chosen
* assignments: of other values at a mask
* numbers: how many are chosen
* chosen: which rule computes an operation
"""
