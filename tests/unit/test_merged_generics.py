"""Generics of one kernel that become one: without what nobody reads."""

from __future__ import annotations

from typing import Any

from dmc._mlir import func, ir
from dmc.passes.scheduled.form_kernels.generics import merge_generics


def _generic(result: str, function: str, operand: str) -> str:
    return f"""
  %{result} = linalg.generic {{indexing_maps = [#row, #row], iterator_types = ["parallel"]}}
      ins(%{operand} : tensor<4xf32>) outs(%0 : tensor<4xf32>) {{
    ^bb0(%a: f32, %o: f32):
      %b = math.{function} %a : f32
      linalg.yield %b : f32
  }} -> tensor<4xf32>"""


def _merged(returned: str, context: Any) -> str:
    module = ir.Module.parse(f"""
#row = affine_map<(i) -> (i)>
func.func private @kernel(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %0 = tensor.empty() : tensor<4xf32>
  {_generic("read", "exp", "x")} {_generic("unread", "sin", "x")} {_generic("neither", "cos", "unread")}
  return {returned} : tensor<4xf32>
}}""")
    function = module.body.operations[0]
    assert isinstance(function, func.FuncOp)
    merge_generics(function)
    assert module.operation.verify()
    return str(module)


def test_what_nobody_reads_is_not_computed(context: Any) -> None:
    text = _merged("%read", context)
    assert "math.exp" in text and "math.sin" not in text and "math.cos" not in text


def test_a_kernel_that_only_passes_a_value_on_computes_nothing(context: Any) -> None:
    assert "linalg.generic" not in _merged("%x", context)


def test_what_only_another_reads_is_computed_inside_of_it(context: Any) -> None:
    text = _merged("%neither", context)
    assert text.count("linalg.generic") == 1 and "math.sin" in text and "math.exp" not in text
