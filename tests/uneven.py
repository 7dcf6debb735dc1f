"""Models whose sizes ranks do not divide, and five steps of them under a plan beside PyTorch eager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
import transformers
from torch import nn

import dmc
from dmc.plans import Plan
from dmc.runtime.tensors.ranks import Ranks
from tests.compiled import assert_same_bits, clone_state, compile_case, model_state, train
from tests.eager import EagerTrainer
from tests.models.case import Case, masked_batch
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close

STEPS, RATE, CLIP = 5, 0.05, 0.5
ROWS, LENGTH = 4, 6


def _tokens(words: int, rows: int, seed: int) -> dict[str, torch.Tensor]:
    tokens = torch.randint(words, (rows, LENGTH), generator=torch.Generator().manual_seed(seed))
    return {"input_ids": tokens, "labels": tokens.clone()}


def mlp(rows: int = ROWS) -> Case:
    """Odd sizes everywhere."""
    torch.manual_seed(0)
    layers = nn.Linear(5, 7), nn.SiLU(), nn.LayerNorm(7), nn.Linear(7, 9, bias=False), nn.Sigmoid(), nn.Linear(9, 3)

    def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(rows, 5, generator=generator), torch.randint(3, (rows,), generator=generator)

    return Case("mlp", nn.Sequential(*layers), nn.functional.cross_entropy, batch)


def gpt2(words: int = 50257, width: int = 16, heads: int = 4, rows: int = ROWS, dropout: float = 0.0) -> Case:
    """One layer, with the classes of the real model."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=words,
        n_positions=8,
        n_embd=width,
        n_layer=1,
        n_head=heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=dropout,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    return Case("gpt2", transformers.GPT2LMHeadModel(config).train(), None, partial(_tokens, words, rows))


def llama(keys: int, rows: int = ROWS) -> Case:
    """Four heads of queries, `keys` of keys and values, 50 hidden units and 57 words."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=57,
        hidden_size=32,
        intermediate_size=50,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=keys,
        max_position_embeddings=8,
        use_cache=False,
    )
    return Case("llama", transformers.LlamaForCausalLM(config).train(), None, partial(_tokens, 57, rows))


def bert(rows: int = ROWS) -> Case:
    """Three heads, 57 words, rows of different lengths."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=57,
        hidden_size=24,
        num_hidden_layers=1,
        num_attention_heads=3,
        intermediate_size=50,
        max_position_embeddings=8,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = transformers.BertForMaskedLM(config).train()
    return Case("bert", model, None, lambda seed: masked_batch(seed, rows, LENGTH, 57, 4))


def t5(rows: int = ROWS) -> Case:
    """Three heads with biases by distance, 57 words."""
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=57,
        d_model=24,
        d_kv=8,
        d_ff=50,
        num_layers=1,
        num_heads=3,
        dropout_rate=0.0,
        use_cache=False,
    )
    config.decoder_start_token_id = 0
    return Case("t5", transformers.T5ForConditionalGeneration(config).train(), None, partial(_tokens, 57, rows))


def vit(rows: int = ROWS) -> Case:
    """Three heads, images of 5 × 5 patches with a class token, 7 classes."""
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=24,
        num_hidden_layers=1,
        num_attention_heads=3,
        intermediate_size=50,
        image_size=20,
        patch_size=4,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    config.num_labels = 7

    def batch(seed: int) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        images = torch.randn(rows, 3, 20, 20, generator=generator)
        return {"pixel_values": images, "labels": torch.randint(7, (rows,), generator=generator)}

    return Case("vit", transformers.ViTForImageClassification(config).train(), None, batch)


def assert_trains(build: Callable[[], Case], plan: Plan, accumulate: int = 1) -> dmc.Step:
    """Five steps under a plan are eager's, a second run has the same bits, and the state has its true shapes."""
    case = build()
    start, batches = clone_state(case.model), [case.example(seed) for seed in range(STEPS)]
    eager = copy.deepcopy(case.model)
    optimizer = torch.optim.SGD(eager.parameters(), lr=RATE, momentum=0.9)
    trainer = EagerTrainer(eager, case.loss, optimizer, CLIP, accumulate)
    expected = [trainer.step(batch) for batch in batches]
    own = dmc.optim.SGD(lr=RATE, momentum=0.9, clip_grad_norm=CLIP)
    step = compile_case(case, own, plan=plan, accumulate=accumulate, progress=False)
    before = step.state_dict()
    losses = train(step, batches)
    assert_losses_close(losses, expected, TOLERANCE["fp32"])
    trained = {name: tensor.detach() for name, tensor in eager.state_dict().items()}
    state = model_state(step)
    assert {name: tensor.shape for name, tensor in state.items()} == {name: each.shape for name, each in start.items()}
    assert_states_close(start, state, trained, TOLERANCE["fp32"])
    assert step.differing_replicas() == ()
    assert_padding_is_zero(step)
    step.load_state_dict(before)
    assert train(step, batches) == losses, "a second run has other losses"
    assert_same_bits(model_state(step), state)
    return step


def assert_padding_is_zero(step: dmc.Step) -> None:
    """What ranks hold of state beyond the state is zero."""
    ranks = Ranks(step.signature)
    held = [step._state.parts(rank) for rank in ranks.held]  # pyright: ignore[reportPrivateUsage]
    for index, spec in enumerate(step.signature.state):
        spread, parts = ranks.spreads[spec.name], [own[index] for own in held]
        for part, padded in zip(parts, spread.parts(spread.whole(parts.__getitem__)), strict=True):
            assert np.array_equal(part, padded), f"{spec.name} has padding that is not zero"
