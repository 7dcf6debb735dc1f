"""Trains a causal language model with `Trainer`, as run_clm.py of `transformers` does."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from texts import lines, tokenizer
from transformers import LlamaConfig, LlamaForCausalLM, TrainingArguments, default_data_collator, set_seed

from dmc.integrations.transformers import DmcTrainer as Trainer

LENGTH, VOCABULARY = 16, 128


def main(out: Path, resume: str | None = None, blocks: int = 15, **settings: Any) -> list[dict[str, Any]]:
    """What was logged. settings: of `TrainingArguments`."""
    set_seed(0)
    texts = lines(200)
    words = tokenizer(texts, VOCABULARY)
    ids = [token for text in texts for token in words(text)["input_ids"]]
    rows = [ids[start : start + LENGTH] for start in range(0, len(ids) - LENGTH, LENGTH)]
    data = [{"input_ids": row, "labels": list(row)} for row in rows]
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    arguments = TrainingArguments(
        str(out),
        num_train_epochs=2,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        learning_rate=1e-2,
        warmup_steps=2,
        lr_scheduler_type="cosine",
        logging_steps=1,
        report_to=[],
        **settings,
    )
    trainer = Trainer(
        LlamaForCausalLM(config),
        arguments,
        train_dataset=data[:blocks],
        eval_dataset=data[blocks : blocks + 10],
        data_collator=default_data_collator,
        processing_class=words,
    )
    trainer.train(resume_from_checkpoint=resume)
    trainer.save_model()
    loss = trainer.evaluate()["eval_loss"]
    trainer.log({"perplexity": math.exp(loss)})
    return trainer.state.log_history


if __name__ == "__main__":
    main(Path("out/causal_lm"))
