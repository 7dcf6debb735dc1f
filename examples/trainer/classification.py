"""Trains a classifier of texts with `Trainer`, as run_glue.py of `transformers` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from texts import lines, tokenizer
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    EvalPrediction,
    TrainingArguments,
    set_seed,
)

from dmc.integrations.transformers import DmcTrainer as Trainer

VOCABULARY = 128


def metrics(given: EvalPrediction) -> dict[str, float]:
    """The share of right classes."""
    return {"accuracy": float((given.predictions.argmax(-1) == given.label_ids).mean())}


def build() -> BertForSequenceClassification:
    """A small model."""
    none: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=32,
        **none,
    )
    return BertForSequenceClassification(config)


def main(out: Path, texts: int = 26, **settings: Any) -> list[dict[str, Any]]:
    """What was logged: whether a line assigns something. settings: of `TrainingArguments`."""
    set_seed(0)
    own = lines(texts + 9)
    words = tokenizer(own, VOCABULARY)
    data = [{**words(text, truncation=True, max_length=24), "label": int("=" in text)} for text in own]
    arguments = TrainingArguments(
        str(out),
        num_train_epochs=2,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=8,
        learning_rate=5e-3,
        label_smoothing_factor=0.1,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="accuracy",
        logging_steps=1,
        report_to=[],
        **settings,
    )
    trainer = Trainer(
        build(),
        arguments,
        train_dataset=data[:texts],
        eval_dataset=data[texts:],
        data_collator=DataCollatorWithPadding(words, pad_to_multiple_of=24),
        processing_class=words,
        compute_metrics=metrics,
    )
    trainer.train()
    trainer.evaluate()
    held_out: Any = data[texts:]
    trainer.log({"predicted": float(trainer.predict(held_out).predictions.sum())})
    return trainer.state.log_history


if __name__ == "__main__":
    main(Path("out/classification"))
