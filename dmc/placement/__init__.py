"""How values lie on a mesh, and what it costs to change that. Plain Python: `dmc.dialect.placements` meets the IR."""
