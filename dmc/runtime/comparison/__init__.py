"""Two computations of one step, compared.

* tolerance: how much two correct computations may differ, with reasons
* difference: whether two computations of a tensor agree
* outcome: the expected outcome of a step
"""
