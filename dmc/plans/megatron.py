"""Ready-made tensor-parallel plans (Shoeybi et al. 2019, arXiv:1909.08053, section 3): `megatron` for any model, the
others for those of Hugging Face by the names of their layers.

Each attention and MLP is a column-parallel layer, which splits heads or hidden units, and a row-parallel one, whose
outputs are partial sums. The embedding and the logits are split by vocabulary, and so is the cross entropy between
them. Biases after a row-parallel layer, position embeddings and norms are replicated. Heads, hidden units and words
that are not divisible are padded inside the step; fewer heads of keys and values than ranks are copied.
`sequence_parallel=True` also splits the norms by sequence (Korthikanti et al. 2022, arXiv:2205.05198).

`nn.Linear` has weights [out, in]: columns are dimension 0. GPT-2's `Conv1D` has [in, out]: columns are dimension 1.
"""

from __future__ import annotations

from dmc.plans.builder import Recipe, recipe
from dmc.plans.rules import Megatron

VOCABULARY = -1  # The last dimension of the logits [batch, length, vocabulary].


def megatron(axis: str = "tp") -> Recipe:
    """Any model: attention and MLPs are found by what they compute, whatever they are called.

    A layer is row-parallel where what it sums over can be computed in parts, by heads or by hidden units, up to the
    layers behind; queries, keys and values may be one layer or three. What else the model computes stays whole on
    every rank. A vocabulary that is not divisible stays whole too, with a note. The ledger names the rules that this
    stands for.
    """
    return Recipe("megatron", (Megatron(axis),))


def megatron_gpt2(axis: str = "tp", *, sequence_parallel: bool = False) -> Recipe:
    """`GPT2LMHeadModel` or `GPT2Model`. `c_attn` is queries, keys and values side by side: three blocks."""
    rules = (
        recipe("megatron_gpt2")
        .shard("attn.c_attn.weight", dim=1, axis=axis, blocks=3)
        .shard("attn.c_attn.bias", dim=0, axis=axis, blocks=3)
        .shard("attn.c_proj.weight", dim=0, axis=axis)
        .shard("mlp.c_fc.weight", dim=1, axis=axis)
        .shard("mlp.c_fc.bias", dim=0, axis=axis)
        .shard("mlp.c_proj.weight", dim=0, axis=axis)
        .shard("wte.weight", dim=0, axis=axis)
        .shard("lm_head.weight", dim=0, axis=axis, optional=True)
        .shard_activation("lm_head", dim=VOCABULARY, axis=axis, optional=True)
    )
    norms = ("h.*.ln_1", "h.*.ln_2", "ln_f")
    return rules.sequence_parallel(axis, between=norms) if sequence_parallel else rules


def megatron_llama(axis: str = "tp", *, sequence_parallel: bool = False) -> Recipe:
    """`LlamaForCausalLM`, tied or not.

    Of fewer key heads than ranks, each rank has a copy of the one that its query heads read.
    """
    rules = (
        recipe("megatron_llama")
        .shard("self_attn.q_proj.weight|self_attn.k_proj.weight|self_attn.v_proj.weight", dim=0, axis=axis)
        .shard("self_attn.[qkv]_proj.bias", dim=0, axis=axis, optional=True)
        .shard("self_attn.o_proj.weight", dim=1, axis=axis)
        .shard("mlp.gate_proj.weight|mlp.up_proj.weight", dim=0, axis=axis)
        .shard("mlp.gate_proj.bias|mlp.up_proj.bias", dim=0, axis=axis, optional=True)
        .shard("mlp.down_proj.weight", dim=1, axis=axis)
        .shard("embed_tokens.weight", dim=0, axis=axis)
        .shard("lm_head.weight", dim=0, axis=axis, optional=True)
        .shard_activation("lm_head", dim=VOCABULARY, axis=axis, optional=True)
    )
    norms = ("layers.*.input_layernorm", "layers.*.post_attention_layernorm", "model.norm")
    return rules.sequence_parallel(axis, between=norms) if sequence_parallel else rules


def megatron_bert(axis: str = "tp", *, sequence_parallel: bool = False) -> Recipe:
    """`BertForMaskedLM`, or `BertModel` without the head. The head's transform is replicated."""
    attention = "attention.self.query.{0}|attention.self.key.{0}|attention.self.value.{0}"
    rules = (
        recipe("megatron_bert")
        .shard(attention.format("weight"), dim=0, axis=axis)
        .shard(attention.format("bias"), dim=0, axis=axis)
        .shard("attention.output.dense.weight", dim=1, axis=axis)
        .shard("intermediate.dense.weight", dim=0, axis=axis)
        .shard("intermediate.dense.bias", dim=0, axis=axis)
        # Also matches the output of attention, which is harmless: the same split twice is one split.
        .shard("layer.*.output.dense.weight", dim=1, axis=axis)
        .shard("embeddings.word_embeddings.weight", dim=0, axis=axis)
        .shard("predictions.decoder.weight", dim=0, axis=axis, optional=True)
        .shard("predictions.bias|predictions.decoder.bias", dim=0, axis=axis, optional=True)
        .shard_activation("predictions.decoder", dim=VOCABULARY, axis=axis, optional=True)
    )
    norms = ("layer.*.attention.output.LayerNorm", "layer.*.output.LayerNorm")
    return rules.sequence_parallel(axis, between=norms) if sequence_parallel else rules


def megatron_t5(axis: str = "tp", *, sequence_parallel: bool = False) -> Recipe:
    """`T5ForConditionalGeneration`, gated (`wi_0`, `wi_1`) or not. Position biases [buckets, heads] are split by
    head."""
    rules = (
        recipe("megatron_t5")
        .shard("*Attention.q.weight|*Attention.k.weight|*Attention.v.weight", dim=0, axis=axis)
        .shard("*Attention.o.weight", dim=1, axis=axis)
        .shard("relative_attention_bias.weight", dim=1, axis=axis)
        .shard("DenseReluDense.wi*.weight", dim=0, axis=axis)
        .shard("DenseReluDense.wo.weight", dim=1, axis=axis)
        .shard("shared.weight", dim=0, axis=axis)
        .shard("lm_head.weight", dim=0, axis=axis, optional=True)
        .shard_activation("lm_head", dim=VOCABULARY, axis=axis, optional=True)
    )
    norms = ("block.*.layer_norm", "encoder.final_layer_norm", "decoder.final_layer_norm")
    return rules.sequence_parallel(axis, between=norms) if sequence_parallel else rules
