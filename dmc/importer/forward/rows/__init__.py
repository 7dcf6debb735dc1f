"""Operations on the rows of tables.

* distances: between rows
* embeddings: rows of tables, and bags of them
* experts: grouped products
* segments: reductions of segments
"""
