"""Placements of values on a mesh, and the cost of changing them. Plain Python: `dmc.dialect.placements` connects to the
IR."""
