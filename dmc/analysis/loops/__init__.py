"""Operations as loops over the dimensions of their operands and results: what may be split.

* loops: the loops of one operation, and the results of splitting them
* rules: the loops of any operation: one table per dialect
* linalg: of linalg operations, from indexing maps and bodies
* scalars: the use of scalars in such bodies
* tensors: of reshapes, slices, paddings, concatenations, arithmetic
* composites: of each kind of composite
* splats: splat tensors: a part of one costs nothing
* shape_classes: dimensions that change size together
* factors: dimensions as products
"""
