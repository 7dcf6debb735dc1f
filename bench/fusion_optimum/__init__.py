"""Fusion by an integer program: the fewest bytes and launches into which the rules allow to divide a step.

* pieces: parts of a step that are fused independently of each other
* candidates: the kernels that a piece may be made of
* surroundings: a piece with what surrounds it; those that are alike have one answer
* partition: the best choice of candidates, as an integer program
* solve: all of this for a step
* in_place: in place of the greedy fusion
"""
