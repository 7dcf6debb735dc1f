"""`megatron` on a model that dmc has no plan for: two ranks train nanoGPT as one does."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

import dmc
from tests.exec.test_examples import modules_of
from tests.large import large


@pytest.mark.parametrize(("layers", "dropout"), [pytest.param(2, 0.0, marks=large), (1, 0.1)])
def test_nanogpt_on_two_ranks_is_one_rank(layers: int, dropout: float) -> None:
    """Fused queries, keys and values, tied embeddings, no biases; evaluation too, without dropout."""
    sizes = {"block_size": 16, "vocab_size": 32, "n_layer": layers, "n_head": 2, "n_embd": 32, "dropout": dropout}
    with modules_of("nanogpt") as module:
        nanogpt: Any = module("nanogpt")
    torch.manual_seed(0)
    model = nanogpt.GPT(nanogpt.Config(**sizes))
    tokens = torch.randint(32, (4, 17), generator=torch.Generator().manual_seed(0))
    batch = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    plan = dmc.plan(dmc.Mesh(tp=2)).use(dmc.plans.megatron("tp"))
    steps = [
        dmc.compile(
            copy.deepcopy(model),
            loss=1,
            optimizer=dmc.optim.AdamW(lr=1e-2, eps=1e-5),
            example=batch,
            evaluation=dropout == 0.0,
            verify=own is not None,
            plan=own,
        )
        for own in (None, plan)
    ]
    losses = [[step(*batch).item() for _ in range(3)] for step in steps]
    if dropout == 0.0:
        losses = [[*seen, step.evaluate(*batch).item()] for seen, step in zip(losses, steps, strict=True)]
    np.testing.assert_allclose(losses[1], losses[0], rtol=2e-4)
    step = steps[1]
    held = step.rank_state_dict(1)["model"]
    assert held["transformer.h.0.attn.c_attn.weight"].shape == (48, 32)
    assert held["transformer.h.0.mlp.2.weight"].shape == (32, 64)
    assert held["transformer.wte.weight"].shape == (16, 32)
    # Two all-reduces in the forward pass of a layer, two in the backward pass.
    moved = [entry for entry in step.ledger().entries if entry.tensor.startswith("transformer.h.")]
    assert {entry.kind for entry in moved} == {"all_reduce"}
    if dropout == 0.0:
        assert len(moved) == layers * 4
