"""The problems that `bench.gpu_kernels` measures: those of the steps of GPT-2 124M, BERT-large and a Llama of 1.1 B."""

from __future__ import annotations

from collections.abc import Mapping

from dmc.kernels.problem import Parameter, Problem, TensorType, problem

_SCALAR = TensorType("f32", ())
_SEED = TensorType("i64", ())


def _f32(*shape: int) -> TensorType:
    return TensorType("f32", shape)


def _bf16(*shape: int) -> TensorType:
    return TensorType("bf16", shape)


def _attention(
    shape: tuple[int, int, int, int], kv_heads: int, p: float, causal: bool, padded: bool = False
) -> dict[str, Problem]:
    q, k = _bf16(*shape), _bf16(shape[0], kv_heads, *shape[2:])
    return attention_of(q, k, q, p, causal, (_f32(shape[0], 1, 1, shape[2]),) if padded else ())


def attention_of(
    q: TensorType,
    k: TensorType,
    out: TensorType,
    p: float,
    causal: bool,
    bias: tuple[TensorType, ...] = (),
) -> dict[str, Problem]:
    """Both passes; k and v have one type."""
    level = _f32(*q.shape[:3], 1)
    settings: dict[str, Parameter] = {"p": p, "scale": q.shape[3] ** -0.5, "causal": causal}
    inputs = (q, k, k, *bias)
    return {
        "": problem("attention", (*inputs, _SEED, _SEED), (out, level), **settings),
        "_backward": problem("attention_backward", (out, *inputs, out, level, _SEED, _SEED), (q, k, k), **settings),
    }


def _beside(batch: int, heads: int, length: int, width: int) -> dict[str, Problem]:
    """Queries, keys and values side by side, as one product gives them; heads of a token side by side in the result."""
    shape = (batch, heads, length, width)
    q = TensorType("bf16", shape, (length * 3 * heads * width, width, 3 * heads * width, 1))
    out = TensorType("bf16", shape, (length * heads * width, width, heads * width, 1))
    return attention_of(q, q, out, 0.1, True)


def summed_attention(
    dtype: str, shape: tuple[int, int, int, int], kv_heads: int, p: float, causal: bool, value_width: int = 0
) -> Problem:
    """The backward pass of queries, keys and values side by side, with the sums over the rows of its gradients.

    value_width: of a head of values; 0 if it is that of the others.
    """
    batch, heads, length, width = shape
    of_value = value_width or width
    row = (heads + kv_heads) * width + kv_heads * of_value

    def beside(count: int, each: int) -> TensorType:
        return TensorType(dtype, (batch, count, length, each), (length * row, each, row, 1))

    q, k, v = beside(heads, width), beside(kv_heads, width), beside(kv_heads, of_value)
    out_row = heads * of_value
    out = TensorType(dtype, (batch, heads, length, of_value), (length * out_row, of_value, out_row, 1))
    whole = attention_of(q, k, out, p, causal)["_backward"]
    dout, _, _, _, *rest = whole.operands
    firsts = {"sums_0": 0, "sums_1": heads * width, "sums_2": (heads + kv_heads) * width}
    operands, results = (dout, q, k, v, *rest), (q, k, v, _f32(row))
    return problem(whole.kind, operands, results, **dict(whole.parameters), **firsts)


def _part(whole: Mapping[str, Problem], batches: int) -> dict[str, Problem]:
    """The same as the part of one rank, all heads of so many batches."""
    found: dict[str, Problem] = {}
    for suffix, each in whole.items():
        batch, heads = each.results[0].shape[:2]
        places = (TensorType("i64", (batch,)), TensorType("i64", (heads,)))
        settings: dict[str, Parameter] = {**dict(each.parameters), "whole_0": batches, "whole_1": heads}
        found[suffix] = problem(each.kind, (*each.operands, *places), each.results, **settings)
    return found


def _odd() -> dict[str, Problem]:
    """Sizes that are no multiples of a tile, in f16: more columns than rows, and heads that share keys under a mask."""
    q, k = TensorType("f16", (2, 3, 100, 48)), TensorType("f16", (2, 3, 230, 48))
    narrow, shared = TensorType("f16", (2, 4, 333, 40)), TensorType("f16", (2, 2, 333, 40))
    return {
        **_named("odd_columns", attention_of(q, k, q, 0.1, False)),
        **_named("odd_causal", attention_of(narrow, shared, narrow, 0.1, True)),
        **_named("odd_plain", attention_of(narrow, shared, narrow, 0.0, True)),
    }


def _cross_entropy(rows: int, classes: int, stride: int) -> dict[str, Problem]:
    logits = TensorType("bf16", (rows, classes), (stride, 1))
    target, level = TensorType("i64", (rows,)), _f32(rows)
    settings: dict[str, Parameter] = {"ignore_index": -100, "label_smoothing": 0.0}
    name = "softmax_cross_entropy"
    backward = (_SCALAR, logits, target, level)
    return {
        "": problem(name, (logits, target), (_SCALAR, level), **settings),
        "_backward": problem(f"{name}_backward", backward, (logits,), **settings),
        "_both": problem(f"{name}_both", (_SCALAR, logits, target), (_SCALAR, level, logits), **settings),
    }


def _embedding(occurrences: int, rows: int, width: int) -> Problem:
    operands = (_bf16(occurrences, width), TensorType("i64", (occurrences,)))
    return problem("embedding_backward", operands, (_f32(rows, width),), padding_index=-1, rows=rows)


def _embedding_part(occurrences: int, rows: int, ranks: int, width: int) -> Problem:
    part = rows // ranks
    operands = (_bf16(occurrences, width), TensorType("i64", (occurrences,)), TensorType("i64", (part,)))
    settings = {"padding_index": -1, "rows": rows, "whole_0": rows}
    return problem("embedding_backward", operands, (_f32(part, width),), **settings)


def _experts(rows: int, width: int, inner: int, experts: int) -> dict[str, Problem]:
    """The order of rows by expert, and the products of a layer from `width` to `inner`."""
    slots, bounds = TensorType("i64", (1, rows)), (TensorType("i64", (1, experts)),) * 2
    x, y, matrices = _bf16(1, rows, width), _bf16(1, rows, inner), _bf16(experts, inner, width)
    return {
        "_order": problem("expert_order", (slots,), (slots, slots, *bounds)),
        "": problem("grouped_product", (x, matrices, *bounds), (y,), turned=True),
        "_backward": problem("grouped_product", (y, matrices, *bounds), (x,), turned=False),
        "_matrices": problem("grouped_outer_product", (y, x, *bounds), (matrices,)),
    }


def _named(name: str, problems: Mapping[str, Problem]) -> dict[str, Problem]:
    return {f"{name}{suffix}": each for suffix, each in problems.items()}


CASES: Mapping[str, Problem] = {
    **_named("gpt2_attention", _attention((16, 12, 1024, 64), 12, 0.0, True)),
    **_named("gpt2_attention_dropout", _attention((16, 12, 1024, 64), 12, 0.1, True)),
    **_named("gpt2_attention_beside", _beside(16, 12, 1024, 64)),
    "gpt2_attention_summed_backward": summed_attention("bf16", (16, 12, 1024, 64), 12, 0.1, True),
    **_named("gpt2_attention_part", _part(_beside(16, 12, 1024, 64), 32)),
    **_named("gpt2_loss", _cross_entropy(16384, 50257, 50304)),
    "gpt2_embedding_backward": _embedding(16384, 50257, 768),
    "gpt2_positions_backward": _embedding(16384, 1024, 768),
    "llama_embedding_part_backward": _embedding_part(32768, 32000, 4, 2048),
    # Sorted by keys of 64 bits.
    "large_embedding_backward": _embedding(65536, 50257, 768),
    "gpt2_loss_unaligned_both": _cross_entropy(16384, 50257, 50257)["_both"],
    **_named("llama_attention", _attention((4, 32, 2048, 64), 8, 0.0, True)),
    **_named("bert_attention_padded", _attention((32, 16, 512, 64), 16, 0.1, False, padded=True)),
    **_odd(),
    **_named("vit_attention", _attention((128, 12, 197, 64), 12, 0.1, False)),
    **_named("bert_attention", _attention((32, 16, 512, 64), 16, 0.1, False)),
    **_named("wide_attention", _attention((4, 32, 2048, 128), 32, 0.0, True)),
    **_named("wide_attention_dropout", _attention((4, 32, 2048, 128), 32, 0.1, True)),
    **_named("wide_attention_shared", _attention((4, 32, 2048, 96), 8, 0.0, True)),
    **_named("wide_attention_whole", _attention((8, 16, 1000, 128), 16, 0.1, False)),
    **_named("experts", _experts(16384, 1024, 1536, 16)),
    **_named("many_experts", _experts(262144, 2048, 1536, 128)),
}
