"""Kernels with constants that are resources of the module, or too large for a line of text."""

from __future__ import annotations

import numpy as np

from tests.planned_jobs import COMPUTE, COPY_IN, COPY_OUT, Draft, run, session

COUNT = 20000
TABLE = (np.arange(COUNT, dtype=np.int64) * 7) % 10007
MASK = np.arange(8) % 3 == 0
KERNELS = """
#at = affine_map<(i) -> (i)>
func.func private @looked_up(%i: tensor<8xi64>) -> tensor<8xi64> {{
  %table = arith.constant {table} : tensor<{count}xi64>
  %mask = arith.constant dense_resource<mask> : tensor<8xi1>
  %empty = tensor.empty() : tensor<8xi64>
  %z = linalg.generic {{indexing_maps = [#at, #at, #at], iterator_types = ["parallel"]}}
      ins(%i, %mask : tensor<8xi64>, tensor<8xi1>) outs(%empty : tensor<8xi64>) {{
  ^bb0(%each: i64, %is: i1, %out: i64):
    %index = arith.index_cast %each : i64 to index
    %found = tensor.extract %table[%index] : tensor<{count}xi64>
    %kept = arith.select %is, %found, %each : i64
    linalg.yield %kept : i64
  }} -> tensor<8xi64>
  return %z : tensor<8xi64>
}}
{{-# dialect_resources: {{ builtin: {{ table: "0x08000000{hex}", mask: "0x01000000{mask}" }} }} #-}}
"""


def _looked_up(table: str) -> None:
    draft = Draft(1)
    places, found = draft.load("i", "i64", (8,)), draft.room("i64", (8,))
    draft.order(COPY_IN, COMPUTE)
    draft.launch("looked_up", [places], [found])
    draft.order(COMPUTE, COPY_OUT)
    draft.store("z", "i64", (8,), found)
    kernels = KERNELS.format(table=table, count=COUNT, hex=TABLE.tobytes().hex(), mask=MASK.tobytes().hex())
    loaded = session(draft.job(), kernels)
    given = np.arange(8, dtype=np.int64) * 2503
    (result,) = run(loaded, {"i": [given]})["z"]
    loaded.close()
    np.testing.assert_array_equal(result, np.where(MASK, TABLE[given], given))


def test_a_constant_may_be_a_resource() -> None:
    _looked_up("dense_resource<table>")


def test_a_constant_may_be_large() -> None:
    _looked_up(f'dense<"0x{TABLE.tobytes().hex()}">')
