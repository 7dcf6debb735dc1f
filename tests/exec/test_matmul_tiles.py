"""Tiles for matrix products: chosen where they fit, ignored where not, and the products stay right."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import dmc
from dmc import dialect
from dmc._mlir import ir
from dmc.api import compile_artifact
from dmc.lowering.kernels.kernels import compile_kernels
from dmc.lowering.stream.matmul_tiles import with_tiles
from dmc.lowering.stream.program import stream_module
from dmc.target import CPU
from tests.compiled import assert_descends_as_eager

ROWS, INNER, OUTER = 136, 96, 224  # No tile side divides them all: there are tiles that stick out.
AVX2 = "native_vector_size = 32 : i64"
AVX512 = "native_vector_size = 64 : i64"
PLAIN = (
    "[affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>]"
)
LEFT = PLAIN.replace("(d0, d2)", "(d2, d0)")
RIGHT = PLAIN.replace("(d2, d1)", "(d1, d2)")


def _matmul(rows: int, columns: int, depth: int, maps: str | None = None) -> str:
    a = f"{depth}x{rows}" if maps == LEFT else f"{rows}x{depth}"
    given = f" indexing_maps = {maps}" if maps else ""
    return (
        f"{AVX512}\n%3 = linalg.matmul{given} ins(%0, %1 : tensor<{a}xf32>, tensor<{depth}x{columns}xf32>) "
        f"outs(%2 : tensor<{rows}x{columns}xf32>) -> tensor<{rows}x{columns}xf32>"
    )


@pytest.mark.parametrize(
    ("program", "tile"),
    [
        (_matmul(2048, 512, 128), "distribution = [128, 128, 0]"),
        (_matmul(2048, 512, 128, PLAIN), "vector_common_parallel = [8, 32, 0]"),
        (_matmul(512, 128, 2048, LEFT), "vector_common_parallel = [16, 32, 0]"),
        (_matmul(128, 128, 2048, LEFT), "distribution = [64, 64, 0]"),
        (_matmul(1024, 30522, 512), "distribution = [128, 128, 0]"),
        (_matmul(2048, 512, 128), "DoubleTilingExpert>>"),
        (_matmul(30522, 512, 1024, LEFT), "DoubleTilingExpert>, {enable_loop_peeling}>"),
        (_matmul(1000, 512, 1000), "DoubleTilingExpert>, {enable_loop_peeling}>"),
        (_matmul(1024, 1000, 512, LEFT), "DoubleTilingExpert>, {enable_loop_peeling}>"),
        (_matmul(2048, 100, 128), "DoubleTilingExpert>>"),
        (_matmul(16, 1024, 256), "distribution = [16, 128, 0]"),
        (_matmul(16, 256, 1024), "distribution = [16, 64, 0]"),
        (_matmul(16, 256, 1024), "vector_common_parallel = [8, 32, 0]"),
        (_matmul(16, 256, 1024).replace(AVX512, AVX2), "vector_common_parallel = [4, 16, 0]"),
        (_matmul(16, 1024, 256).replace(AVX512, AVX2), "vector_common_parallel = [8, 8, 0]"),
        (_matmul(20, 1024, 256), "DoubleTilingExpert>, {enable_loop_peeling}>"),
    ],
)
def test_tiles_are_chosen_by_kind_and_size(program: str, tile: str) -> None:
    tiled = with_tiles(program, cores=2)
    assert tile in tiled
    assert tiled.replace(tiled[tiled.index(" {comp") : tiled.index("} ins") + 1], "") == program, "nothing else changes"


@pytest.mark.parametrize(
    "program",
    [
        _matmul(2048, 512, 128).replace(AVX512, AVX2),
        _matmul(2048, 512, 128).replace(AVX512, AVX2.replace("32", "16")),
        _matmul(16, 512, 128, LEFT),
        _matmul(2048, 512, 128, RIGHT),
        _matmul(30522, 500, 1024, LEFT),
        _matmul(512, 100, 2048, LEFT),
        _matmul(1000, 500, 512),
        _matmul(1024, 512, 30522),
        _matmul(8, 512, 128),
        _matmul(2048, 512, 128).replace("f32", "bf16"),
    ],
    ids=[
        "many rows with AVX2",
        "other vectors",
        "few rows, transposed left",
        "transposed right",
        "tiles stick out",
        "columns stick out",
        "rows and columns stick out",
        "too deep",
        "too few rows",
        "other type",
    ],
)
def test_other_products_are_left_alone(program: str) -> None:
    assert with_tiles(program, cores=2) == program


def test_more_cores_get_smaller_tiles() -> None:
    assert "distribution = [64, 64, 0]" in with_tiles(_matmul(512, 128, 2048, LEFT), cores=8)


def test_a_layer_with_tiles_agrees_with_eager() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(INNER, OUTER), nn.Tanh(), nn.Linear(OUTER, INNER))
    x, y = torch.randn(ROWS, INNER), torch.randn(ROWS, INNER)
    loss, optimizer = nn.functional.mse_loss, dmc.optim.SGD(lr=1.0)
    artifact = compile_artifact(model, loss=loss, optimizer=optimizer, example=(x, y))
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        code = compile_kernels(ir.Module.parse(artifact.ir["03-scheduled"]), artifact.job.kernels, CPU)
    program = stream_module(artifact.job, code)
    if AVX512 in program:
        assert "compilation_info" in with_tiles(program, cores=2)
    step = dmc.api.CompiledStep(artifact)
    assert_descends_as_eager(step, model, loss, (x, y))
