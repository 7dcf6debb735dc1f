"""Trains a masked language model with `Trainer`, as run_mlm.py of `transformers` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from texts import lines, tokenizer
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

from dmc.integrations.transformers import DmcTrainer as Trainer

LENGTH, VOCABULARY = 16, 128


class Seen(TrainerCallback):
    """The events of a training, counted."""

    def __init__(self) -> None:
        self.steps = self.evaluations = 0

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """After each update."""
        self.steps += 1

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """After each evaluation."""
        self.evaluations += 1


def main(out: Path, texts: int = 16, **settings: Any) -> list[dict[str, Any]]:
    """What was logged. settings: of `TrainingArguments`."""
    set_seed(0)
    own = lines(texts + 8)
    words = tokenizer(own, VOCABULARY)
    data = [{"input_ids": words(text, truncation=True, max_length=LENGTH)["input_ids"]} for text in own]
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
    arguments = TrainingArguments(
        str(out),
        max_steps=4,
        per_device_train_batch_size=4,
        learning_rate=5e-3,
        max_grad_norm=0.5,
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="no",
        logging_steps=1,
        report_to=[],
        **settings,
    )
    seen = Seen()
    trainer = Trainer(
        BertForMaskedLM(config),
        arguments,
        train_dataset=data[:texts],
        eval_dataset=data[texts:],
        data_collator=DataCollatorForLanguageModeling(words, mlm_probability=0.3, pad_to_multiple_of=LENGTH),
        callbacks=[seen],
    )
    trainer.train()
    trainer.log({"steps": seen.steps, "evaluations": seen.evaluations})
    return trainer.state.log_history


if __name__ == "__main__":
    main(Path("out/masked_lm"))
