"""Scripts with `Trainer` of `transformers`: with one import changed, they log the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dmc.errors import DmcError, InputError
from tests.large import large, large_unless

pytest.importorskip("accelerate")

from transformers import (
    DataCollatorWithFlattening,
    EvalPrediction,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
    set_seed,
)

from dmc.integrations.transformers import DmcTrainer, FixedLength
from dmc.integrations.transformers.steps import Steps
from dmc.integrations.transformers.updates import Update

TOKENS = 12
SCRIPTS = Path(__file__).parents[2] / "examples" / "trainer"
OWN = "from dmc.integrations.transformers import DmcTrainer as Trainer"
THEIRS = "from transformers import Trainer"
# What times and sizes are is not compared, and dmc's step keeps the gradient's norm to itself.
LEFT_OUT = ("runtime", "per_second", "preparation_time", "flos", "grad_norm")

Main = Callable[..., list[dict[str, Any]]]
CPU: dict[str, Any] = {"use_cpu": True, "disable_tqdm": True}


def _mains(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Main, Main]:
    """`main` of the library's script, and of the compiled one."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    source = (SCRIPTS / f"{name}.py").read_text()
    assert source.count(OWN) == 1
    found: list[Main] = []
    for text in (source.replace(OWN, THEIRS), source):
        names: dict[str, Any] = {"__name__": name}
        exec(compile(text, f"{name}.py", "exec"), names)
        found.append(names["main"])
    sys.modules.pop("texts", None)
    return found[0], found[1]


def _assert_alike(compiled: list[dict[str, Any]], eager: list[dict[str, Any]]) -> None:
    """Both have logged the same events with the same numbers."""
    assert len(compiled) == len(eager)
    for own, theirs in zip(compiled, eager, strict=True):
        names, found = ({name for name in each if not any(p in name for p in LEFT_OUT)} for each in (theirs, own))
        assert names == found
        np.testing.assert_allclose([own[name] for name in names], [theirs[name] for name in names], rtol=2e-4)


class Tiny(nn.Module):
    """Guesses each token from the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(TOKENS, 8), nn.Linear(8, TOKENS)
        self.drop = nn.Dropout(0.1)

    def forward(self, input_ids: Tensor, labels: Tensor, num_items_in_batch: Tensor | None = None) -> dict[str, Tensor]:
        """As models of the library: a mean, or a share of the mean over the whole batch."""
        logits = self.head(self.table(input_ids))
        kind = "mean" if num_items_in_batch is None else "sum"
        loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), reduction=kind)
        return {"loss": loss if num_items_in_batch is None else loss / num_items_in_batch, "logits": logits}


class Counted(Tiny):
    """Takes what `Trainer` passes to losses."""

    accepts_loss_kwargs = True


def _data(count: int) -> list[dict[str, Tensor]]:
    draw = torch.Generator().manual_seed(0)
    rows = [torch.randint(1, TOKENS, (6,), generator=draw) for _ in range(count)]
    # A different number of tokens counts in each row.
    masks = [torch.arange(6) < 3 + number % 4 for number in range(count)]
    return [{"input_ids": row, "labels": row.where(mask, -100)} for row, mask in zip(rows, masks, strict=True)]


def _run(kind: type[Trainer], model: nn.Module, out: Path, resume: Path | None = None, **settings: Any) -> Any:
    """What was logged, and the trainer."""
    set_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    given: dict[str, Any] = {
        "num_train_epochs": 2,
        "per_device_train_batch_size": 2,
        "learning_rate": 0.1,
        "logging_steps": 1,
    }
    given |= {**CPU, "save_strategy": "no", **settings}
    arguments = TrainingArguments(str(out), report_to=[], **given)
    trainer = kind(model, arguments, train_dataset=_data(7), eval_dataset=_data(12)[7:], compute_metrics=_metrics)
    trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
    trainer.evaluate()
    return trainer.state.log_history, trainer


def _metrics(given: EvalPrediction) -> dict[str, float]:
    return {"sum": float(np.abs(given.predictions).sum())}


@pytest.mark.parametrize("kind", large_unless((Counted,), (Tiny, Counted)))
def test_micro_batches_of_several_sizes(kind: type[Tiny], tmp_path: Path) -> None:
    """Updates of two micro-batches, the last of fewer rows; losses over tokens of the update, or means of means."""
    settings: dict[str, Any] = {"gradient_accumulation_steps": 2, "eval_strategy": "epoch"}
    (expected, _), (logged, trainer) = (_run(each, kind(), tmp_path, **settings) for each in (Trainer, DmcTrainer))
    _assert_alike(logged, expected)
    # The model has what was trained.
    trainer._steps.close()
    trainer._steps = None
    assert trainer.evaluate()["eval_loss"] == pytest.approx(expected[-1]["eval_loss"], rel=2e-4)


def test_each_goes_on_from_the_others_checkpoint(tmp_path: Path) -> None:
    expected, _ = _run(Trainer, Tiny(), tmp_path / "eager", save_strategy="steps", save_steps=3)
    _assert_alike(_run(DmcTrainer, Tiny(), tmp_path / "compiled", save_strategy="steps", save_steps=3)[0], expected)
    for kind, place in ((Trainer, "compiled"), (DmcTrainer, "eager")):
        resumed, _ = _run(kind, Tiny(), tmp_path / "resumed", tmp_path / place / "checkpoint-3")
        _assert_alike(_losses(resumed), _losses(expected))


@pytest.mark.parametrize(
    ("settings", "name"), [({"fp16": True, "use_cpu": False}, "fp16"), ({"torch_compile": True}, "torch_compile")]
)
def test_what_a_compiled_step_does_not_have_is_refused(settings: Any, name: str, tmp_path: Path) -> None:
    arguments = TrainingArguments(str(tmp_path), report_to=[], **{**CPU, **settings})
    with pytest.raises(DmcError, match=f"DmcTrainer: {name}: is not supported"):
        DmcTrainer(Tiny(), arguments, train_dataset=_data(2))


def test_batches_of_too_many_shapes_are_refused(tmp_path: Path) -> None:
    """Each would be compiled."""
    steps = Steps(Tiny(), torch.optim.SGD(Tiny().parameters()), None, lambda output: output, {})
    updates = [Update.of([{"input_ids": torch.zeros(1, size)}], None, is_scaled=False) for size in range(1, 11)]
    steps.expect(updates[:8], [])
    with pytest.raises(DmcError, match=r"more than 8 shapes.*\n.*pad to few lengths"):
        steps.train(updates[9])


def test_rows_are_padded_to_a_fixed_length() -> None:
    """As documents in a row: padding has no labels, and positions begin anew."""
    examples = [{"input_ids": [5, 6, 7]}, {"input_ids": [8, 9]}]
    collator = FixedLength(DataCollatorWithFlattening(return_tensors="pt"), length=8, fill={"input_ids": 3})
    batch = collator(examples)
    assert {name: value.tolist() for name, value in batch.items()} == {
        "input_ids": [[5, 6, 7, 8, 9, 3, 3, 3]],
        "labels": [[-100, 6, 7, -100, 9, -100, -100, -100]],
        "position_ids": [[0, 1, 2, 0, 1, 0, 1, 2]],
    }
    assert FixedLength(collator.collator, multiple=16)(examples)["labels"].shape == (1, 16)
    with pytest.raises(InputError, match=r"rows of 5 tokens; they are padded to 4"):
        FixedLength(collator.collator, length=4)(examples)


@large
def test_a_causal_model_is_trained_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accumulation, with a smaller last update; a schedule, clipping, evaluation; each goes on where the other was."""
    eager, compiled = _mains("causal_lm", monkeypatch)
    saved = {**CPU, "save_steps": 3, "save_strategy": "steps"}
    expected = eager(tmp_path / "eager", **saved)
    _assert_alike(compiled(tmp_path / "compiled", **saved), expected)
    checkpoints = [tmp_path / name / "checkpoint-3" for name in ("compiled", "eager")]
    for main, checkpoint in zip((eager, compiled), checkpoints, strict=True):
        resumed = main(tmp_path / "resumed", resume=str(checkpoint), **CPU, save_strategy="no")
        _assert_alike(_losses(resumed), _losses(expected))


@large
@pytest.mark.parametrize("strategy", ["bfd", "wrapped"])
def test_trl_trains_on_packed_texts(strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of several documents, padded to one length, or rows cut out of all texts."""
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    monkeypatch.syspath_prepend(str(SCRIPTS))
    texts = __import__("texts")
    lines = texts.lines(40)
    words = texts.tokenizer(lines, 64)
    words.eos_token = "[SEP]"
    compiled = type("Compiled", (DmcTrainer, trl.SFTTrainer), {"compute_loss": Trainer.compute_loss})
    logged: list[list[float]] = []
    for kind in (trl.SFTTrainer, compiled):
        set_seed(0)
        given: dict[str, Any] = {
            "max_steps": 2,
            "max_length": 16,
            "per_device_train_batch_size": 2,
            "logging_steps": 1,
            "bf16": False,
        }
        given |= {"packing": True, "packing_strategy": strategy, "save_strategy": "no", "gradient_checkpointing": False}
        config = trl.SFTConfig(str(tmp_path), report_to=[], **CPU, **given)
        data = datasets.Dataset.from_dict({"text": lines})
        trainer = kind(model=_llama(64), args=config, train_dataset=data, processing_class=words)
        if strategy == "bfd":
            trainer.data_collator = FixedLength(trainer.data_collator, length=32)
        trainer.train()
        logged.append([each["loss"] for each in trainer.state.log_history if "loss" in each])
    np.testing.assert_allclose(logged[1], logged[0], rtol=1e-5)


def _llama(tokens: int) -> LlamaForCausalLM:
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    return LlamaForCausalLM(LlamaConfig(vocab_size=tokens, num_key_value_heads=1, **sizes))


def _losses(logged: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in logged if "loss" in each or "eval_loss" in each or "perplexity" in each]


@large
def test_a_classifier_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding, label smoothing, metrics, the best checkpoint at the end, predictions."""
    eager, compiled = _mains("classification", monkeypatch)
    _assert_alike(compiled(tmp_path / "compiled", **CPU), eager(tmp_path / "eager", **CPU))


@large
def test_a_masked_model_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random masks, callbacks, evaluation in between; as far as the scripts' random numbers go, in the same order."""
    eager, compiled = _mains("masked_lm", monkeypatch)
    _assert_alike(compiled(tmp_path / "compiled", **CPU), eager(tmp_path / "eager", **CPU))
