"""Every family of kernels on small, odd shapes, each buffer in memory of its own: for NVIDIA's compute-sanitizer.

`python -m bench.gpu_sanitizer prepare DIRECTORY` compiles them on any machine. On one with a GPU, CuPy and PyTorch,
`compute-sanitizer --report-api-errors no python -m bench.gpu_sanitizer run DIRECTORY` launches each once, with `--tool
memcheck`, racecheck, initcheck or synccheck. (NVIDIA's bindings look for functions that a driver may lack, hence the
option.) Products there are those that threads load. The copy engine's need large tensors: `… run DIRECTORY --products`
launches each way of such a product once, and compares what they compute.
"""

from __future__ import annotations

import argparse
import itertools
import pickle
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bench.kernel_cases import summed_attention
from bench.kernel_code import Compiled, written
from dmc.kernels.code import compile_recipe
from dmc.kernels.implementation import implementation_of
from dmc.kernels.problem import Parameter, Problem, TensorType, problem
from dmc.kernels.recipe import Recipe

REGIONS = Path(__file__).parents[1] / "tests" / "generated"
# The sizes of the regions in that folder, by the letter that stands for them.
SIZES: Mapping[str, Mapping[str, int]] = {
    "elements": {"r": 33, "c": 70, "n": 2310},
    "halves": {"r": 33, "c": 10, "h": 5},
    "rows": {"r": 33, "c": 100, "n": 66},
    "columns": {"r": 300, "c": 70},
    "row_sums": {"r": 4224, "c": 70},
    "product": {"m": 130, "n": 257, "k": 70},
}
_SCALAR, _SEED = TensorType("f32", ()), TensorType("i64", ())
_CASES, _PRODUCTS = "cases.pickle", "products.candidates"
# So many candidates of each.
_WAYS = 3


@dataclass(frozen=True)
class Small:
    """A problem, one way to compute it, and its code."""

    problem: Problem
    recipe: Recipe
    compiled: Compiled


def main() -> int:
    """Compiles, or launches everything once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--products", action="store_true", help="of `run`: products loaded by the copy engine")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    if options.mode == "prepare":
        ways = enumerate((*_by_hand(), *_generated()))
        found = [_compiled(options.directory, number, *each) for number, each in ways]
        (options.directory / _CASES).write_bytes(pickle.dumps(found))
        products = _write_products(options.directory / _PRODUCTS)
        print(f"{len(found)} ways; {products} of a large product")
        return 0
    if options.products:
        return _run_products(options.directory / _PRODUCTS)
    found = pickle.loads((options.directory / _CASES).read_bytes())
    for each in found:
        _launch(each, options.directory)
    print(f"launched {len(found)} ways")
    return 0


def _write_products(path: Path) -> int:
    """Compiles the product of a layer, with GELU behind it, in all ways of the copy engine; returns how many."""
    import torch
    from torch import nn

    import dmc
    from dmc.api import compile_artifact
    from dmc.cli.tune import write_candidates

    # No multiples of a tile, but of 16 bytes, as the copy engine needs.
    rows, width, hidden = 2120, 264, 2056
    artifact = compile_artifact(
        nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width)),
        loss=nn.functional.mse_loss,
        optimizer=dmc.optim.SGD(lr=0.1),
        example=(torch.zeros(rows, width), torch.zeros(rows, width)),
        precision="bf16-mixed",
        target="cuda",
        verify=False,
    )
    found = write_candidates(artifact, path)
    products = [(each, [way for way in each.candidates if "copied=1" in way.label]) for each in found.tunables]
    kept = tuple(replace(each, candidates=tuple(ways)) for each, ways in products if ways)
    path.write_bytes(replace(found, tunables=kept).to_bytes())
    return sum(len(each.candidates) for each in kept)


def _run_products(path: Path) -> int:
    from dmc.program.tuning import Candidates
    from dmc.runtime.gpu.cuda_streams import open_device
    from dmc.runtime.sessions.replay.tuner import compared

    wrong = 0
    for kernel, label, fact in compared(open_device(), Candidates.from_bytes(path.read_bytes(), str(path))):
        print(f"{kernel} {label}: {fact or 'right'}", flush=True)
        wrong += fact is not None
    return int(wrong > 0)


def _f32(*shape: int) -> TensorType:
    return TensorType("f32", shape)


def _bf16(*shape: int) -> TensorType:
    return TensorType("bf16", shape)


def _problems() -> Iterator[Problem]:
    """Small problems of the kernels written by hand."""
    ways = ((0.0, True, (), 2), (0.1, True, (), 4), (0.1, False, (_f32(2, 1, 1, 70),), 4))
    # Heads of more than 32 are copied ahead in tiles.
    for width, (p, causal, bias, kv_heads) in itertools.product((24, 48, 104), ways):
        settings: dict[str, Parameter] = {"p": p, "scale": 0.2, "causal": causal}
        q, k, level = _bf16(2, 4, 70, width), _bf16(2, kv_heads, 70, width), _f32(2, 4, 70, 1)
        inputs = (q, k, k, *bias)
        yield problem("attention", (*inputs, _SEED, _SEED), (q, level), **settings)
        yield problem("attention_backward", (q, *inputs, q, level, _SEED, _SEED), (q, k, k), **settings)
    for width, p in ((24, 0.0), (48, 0.1), (104, 0.0)):
        summed = summed_attention("bf16", (2, 4, 70, width), 2, p, True)
        # Each operand is in memory of its own here, without what would lie beside it.
        dense = tuple(TensorType(each.dtype, each.shape) for each in summed.operands)
        yield problem(summed.kind, dense, summed.results, **dict(summed.parameters))
    logits, target, level = _bf16(70, 333), TensorType("i64", (70,)), _f32(70)
    options: dict[str, Parameter] = {"ignore_index": -100, "label_smoothing": 0.0}
    yield problem("softmax_cross_entropy", (logits, target), (_SCALAR, level), **options)
    yield problem("softmax_cross_entropy_backward", (_SCALAR, logits, target, level), (logits,), **options)
    yield problem("softmax_cross_entropy_both", (_SCALAR, logits, target), (_SCALAR, level, logits), **options)
    yield problem("embedding_backward", (_f32(70, 40), target), (_f32(99, 40),), padding_index=-1, rows=99)


def _by_hand() -> Iterator[tuple[Problem, Recipe]]:
    for each in _problems():
        implementation = implementation_of(each)
        for candidate in implementation.candidates(each)[:_WAYS]:
            yield each, implementation.recipe(each, candidate)


def _generated() -> Iterator[tuple[Problem, Recipe]]:
    from dmc import dialect
    from dmc._mlir import ir
    from dmc.kernels.generated import generate

    for name, sizes in SIZES.items():
        text = (REGIONS / f"{name}.mlir.in").read_text(encoding="utf-8").replace("$type", "bf16")
        for letter, size in sizes.items():
            text = text.replace(f"${letter}", str(size))
        with ir.Context() as context, ir.Location.unknown():
            dialect.load(context)
            module = ir.Module.parse(text)
            made = generate(module.body.operations[0])
        yield from ((made.problem, recipe) for recipe in made.recipes[:_WAYS])


def _compiled(directory: Path, number: int, given: Problem, recipe: Recipe) -> Small:
    every = frozenset(buffer for call in recipe.calls for buffer in call.buffers)
    # Without alignment nothing is left to the copy engine, which products of such sizes do not suit.
    is_copied_ahead = any(call.views and not call.source for call in recipe.calls)
    code = compile_recipe(given, recipe, loose=frozenset() if is_copied_ahead else every)
    return Small(given, recipe, Compiled(given.kind, 0, written(directory, str(number), code)))


def _launch(small: Small, directory: Path) -> None:
    import torch

    from bench.kernel_launch import Instance

    instance = Instance.of(small.compiled, directory, small.problem, small.recipe, _operands(small.problem))
    instance.launch()
    torch.cuda.synchronize()
    print(f"{small.problem.kind}: {len(small.compiled.launches)} launches", flush=True)


def _operands(given: Problem) -> tuple[Any, ...]:
    """Those of the sample of an implementation, or random ones of a generated region."""
    from dmc.kernels.implementation import implementations
    from dmc.kernels.references.draws import Draws

    draws = Draws.of(0)
    kinds = {each.kind: each for each in implementations()}
    if given.kind in kinds:
        made = kinds[given.kind].sample(given, draws)
    else:
        whole = ("i64", "i32", "i1")
        made = tuple(draws.index(t, 0, 2) if t.dtype in whole else draws.normal(t) for t in given.operands)
    return tuple(each.cuda() for each in made)


if __name__ == "__main__":
    sys.exit(main())
