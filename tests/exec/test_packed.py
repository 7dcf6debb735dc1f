"""Documents packed into one row train as each alone: attention, positions and losses do not cross their borders."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from tests.compiled import clone_state
from tests.interpreted import RATE, InterpretedStep
from tests.large import large_unless
from tests.tolerance import TOLERANCE, assert_states_close

LENGTHS, VOCABULARY = (5, 3, 6), 32
KINDS = ("llama", "qwen2", "qwen3", "mistral", "gemma3_text")
CASES = [(kind, way) for way in ("sdpa", "flex_attention") for kind in KINDS]
QUICK = (("qwen2", "sdpa"), ("mistral", "flex_attention"))


def _model(kind: str) -> Any:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "head_dim": 16}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 32}
    window = {"sliding_window": 4} if kind in ("mistral", "gemma3_text") else {}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = transformers.AutoConfig.for_model(kind, **sizes, **window, **tokens, use_cache=False)
    return transformers.AutoModelForCausalLM.from_config(config).train()


def _packed(documents: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """As `DataCollatorWithFlattening` does: ids, positions that restart, labels without each document's first."""
    labels = [torch.cat([torch.tensor([-100]), each[1:]]) for each in documents]
    positions = [torch.arange(len(each)) for each in documents]
    rows = [torch.cat(each)[None] for each in (documents, positions, labels)]
    return rows[0], rows[1], rows[2]


@pytest.mark.parametrize("case", large_unless(QUICK, CASES), ids=str)
def test_a_packed_row_trains_as_its_documents(context: Any, case: tuple[str, str]) -> None:
    kind, way = case
    model, draw = _model(kind), torch.Generator().manual_seed(0)
    eager, start = copy.deepcopy(model), clone_state(model)
    documents = [torch.randint(3, VOCABULARY, (length,), generator=draw) for length in LENGTHS]
    ids, positions, labels = _packed(documents)
    model.set_attn_implementation(way)
    example: Any = {"input_ids": ids, "position_ids": positions, "labels": labels}
    step = InterpretedStep(context, model, None, example)
    names: dict[str, Any] = {spec.name: example[spec.name] for spec in step.signature.batch}
    loss = step(*names.values())
    assert loss == pytest.approx(_descend(eager, documents), rel=1e-5)
    found = step.model_state()
    assert_states_close(start, found, {name: found[name] for name in start} | eager.state_dict(), TOLERANCE["fp32"])


def _descend(model: Any, documents: list[Tensor]) -> float:
    """The mean over all tokens of documents, each alone; takes its gradient off the parameters."""
    counts = [len(each) - 1 for each in documents]
    losses = [model(input_ids=each[None], labels=each[None]).loss for each in documents]
    mean = sum(loss * count for loss, count in zip(losses, counts, strict=True)) / sum(counts)
    mean.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            assert isinstance(parameter, nn.Parameter) and parameter.grad is not None
            parameter.sub_(RATE * parameter.grad)
    return float(mean)
