"""Operations as loops over the dimensions of what they read and give: what of them may be split.

* loops: the loops of one operation, and what splitting them makes
* rules: the loops of any operation: one table for each dialect
* linalg: of linalg operations, from indexing maps and bodies
* scalars: what such a body does with its scalars
* tensors: of reshapes, slices, paddings, concatenations, arithmetic
* composites: of each kind of composite
* splats: tensors that are the same everywhere: a part of one costs nothing
* shape_classes: dimensions that change their size together
* rows: values that fall into equal pieces
"""
