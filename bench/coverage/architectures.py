"""The architectures of `transformers` that have a training loss on text, images or sound, from tiny configurations."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from bench.coverage.steps import Sample
from bench.coverage.tiny import IMAGE, LENGTH, VOCABULARY, tiny

# The first head that a model type has is taken.
_HEADS = ("CAUSAL_LM", "MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM", "IMAGE_CLASSIFICATION", "AUDIO_CLASSIFICATION")
# More parameters than this say that a configuration has its sizes under names of its own.
_MOST = 8_000_000


class _Loss(nn.Module):
    """A model's own loss alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **batch: Tensor) -> Tensor:
        """The loss of a batch with labels."""
        return self.model(**batch).loss


def names() -> list[str]:
    """Every model type that has one of the heads."""
    return sorted({name for head in _HEADS for name in _classes(head)})


def samples(name: str) -> list[Sample]:
    """One batch for a model type."""
    head = next(head for head in _HEADS if name in _classes(head))
    kinds = _classes(head)[name]
    kind = getattr(transformers, kinds if isinstance(kinds, str) else kinds[0])
    # A model of text alone may take a part of the configuration.
    config = tiny(kind.config_class or CONFIG_MAPPING[name])
    if head == "SEQ_TO_SEQ_CAUSAL_LM" and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = 1
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in kind(config).parameters())
    if count > _MOST:
        raise ValueError(f"{count} parameters, though its sizes are small")
    model, batch = kind(config).train(), _batch(name, head, config)
    # Some models settle what kind of problem it is in their first call; dmc refuses that, with this way out.
    with torch.no_grad():
        model(**batch)
    return [Sample(_Loss(model), (), batch)]


def _classes(head: str) -> dict[str, Any]:
    return getattr(modeling_auto, f"MODEL_FOR_{head}_MAPPING_NAMES")


def _batch(name: str, head: str, config: Any) -> dict[str, Tensor]:
    """What a model is trained on; most take text or images alone."""
    tokens = torch.randint(3, VOCABULARY, (2, LENGTH))
    text, classes = {"input_ids": tokens, "labels": tokens.clone()}, torch.tensor([1, 3])
    size = getattr(config, "image_size", None) or IMAGE
    images = torch.randn(2, 3, *size if isinstance(size, list) else (size, size))
    if name == "git":
        return {**text, "pixel_values": images}
    if name == "imagegpt":
        return {"input_ids": tokens, "labels": classes}
    if name.startswith("musicgen"):
        # Of each codebook.
        return {
            "input_ids": tokens.repeat(config.num_codebooks, 1),
            "labels": tokens[..., None].repeat(1, 1, config.num_codebooks),
        }
    if head == "AUDIO_CLASSIFICATION":
        return {**_sound(name, config), "labels": classes}
    return {"pixel_values": images, "labels": classes} if head == "IMAGE_CLASSIFICATION" else text


def _sound(name: str, config: Any) -> dict[str, Tensor]:
    """Samples, or what a model takes of them."""
    if name == "wav2vec2-bert":
        return {"input_features": torch.randn(2, LENGTH, config.feature_projection_input_dim)}
    if name == "audio-spectrogram-transformer":
        return {"input_values": torch.randn(2, config.max_length, config.num_mel_bins)}
    return {"input_values": torch.randn(2, 1600)}
