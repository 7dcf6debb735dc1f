"""Tensors in host memory: users' data, exact arrays, and the parts of them that ranks hold.

* arrays: user data as arrays of an exact type
* large_copies: copies in several threads
* number: a value that is a Python number where it can be one
* tree: users' containers ↔ the flat lists of a step
* index_bounds: indices of a batch are in range
* ranks: tensors and their parts by rank
* holders: the ranks that have a tensor
"""
