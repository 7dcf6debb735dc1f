"""Tiles for the loops that put columns into panels (`dm-pack-panels`), in IREE's program.

A tile reads some whole lines of the cache of each row, and writes pieces of panels that are a few KiB long. With IREE's
own tiles packing took two to five times as long.
"""

from __future__ import annotations

import re

from dmc.analysis.kernels.panels import WIDTH

# The rows and panels of the tile of one task, best first, and the rows that are in registers at a time.
_TILES = ((64, 4), (128, 2), (256, 1), (64, 1))
_ROWS = 8

_PACKING = re.compile(
    r"(?P<loops>linalg\.generic \{indexing_maps = \[affine_map<\(d0, d1, d2\) -> \(d0, d1, d2\)>, "
    r'affine_map<\(d0, d1, d2\) -> \(d1, d0, d2\)>\], iterator_types = \["parallel", "parallel", "parallel"\]\} '
    rf"ins\(%\S+ : tensor<(?P<rows>\d+)x(?P<panels>\d+)x{WIDTH}xf32>\) outs\(%\S+ : tensor<[\dx]+xf32>\)) "
    r"(?P<body>\{\s*\^bb0\((?P<given>%\w+): f32, %\w+: f32\):\s*linalg\.yield (?P=given) : f32)"
)


def with_packing_tiles(program: str) -> str:
    """The stream-level program with tiles for the loops that put columns into panels."""
    return _PACKING.sub(_tiled, program)


def _tiled(loops: re.Match[str]) -> str:
    rows, panels = int(loops["rows"]), int(loops["panels"])
    tile = next((tile for tile in _TILES if rows % tile[0] == 0 and panels % tile[1] == 0), None)
    if tile is None:
        return loops[0]
    lowering = (
        f"#iree_cpu.lowering_config<distribution = {[*tile, WIDTH]}, vector_common_parallel = {[_ROWS, 1, WIDTH]}>"
    )
    translation = "#iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<DoubleTilingExpert>>"
    info = f"#iree_codegen.compilation_info<lowering_config = {lowering}, translation_info = {translation}>"
    return f"{loops['loops']} attrs = {{compilation_info = {info}}} {loops['body']}"
