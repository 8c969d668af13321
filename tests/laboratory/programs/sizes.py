"""Programs that run at any size of their batch, or of their sequences: ``size:16``."""

from __future__ import annotations

from typing import Any

from tests.laboratory.programs.language import (
    LargeVocabulary,
    MixtureOfExperts,
    NaiveAttention,
    TransformerTraining,
)
from tests.laboratory.programs.optimizers import WideModel
from tests.laboratory.programs.others import Contrastive
from tests.laboratory.programs.vision import UNetTraining
from tests.laboratory.truth import Watch


class OfAnySize:
    """Takes a size where other programs take a change."""

    name = ""
    grows = "batch"
    """The attribute that is the size."""
    variants: Any = ()  # no change of it is judged

    def __init__(self, variant: str = "size:1", watch: Watch | None = None) -> None:
        code, _, number = variant.partition(":")
        if code != "size":
            raise ValueError(f"{self.name} has no variant {variant!r}")
        super().__init__("", watch)  # type: ignore[call-arg]
        setattr(self, self.grows, int(number))


class Transformer(OfAnySize, TransformerTraining):
    """The plain case."""

    name = "sized-transformer"


class Vocabulary(OfAnySize, LargeVocabulary):
    """Of a small batch parameters and their state are most."""

    name = "sized-large-vocabulary"


class Images(OfAnySize, UNetTraining):
    """Of convolutions PyTorch's kernels make temporary tensors, too."""

    name = "sized-unet"


class Wide(OfAnySize, WideModel):
    """The peak of a small batch is in the optimizer's step, that of a large one is not."""

    name = "sized-wide-model"


class Pairs(OfAnySize, Contrastive):
    """Similarities grow with the square of the batch."""

    name = "sized-contrastive"


class Length(OfAnySize, NaiveAttention):
    """Attention's weights grow with the square of the length."""

    name = "sized-naive-attention"
    grows = "length"


class Routed(OfAnySize, MixtureOfExperts):
    """How many tokens an expert gets depends on the tokens."""

    name = "sized-experts"


class Layers(OfAnySize, TransformerTraining):
    """Another number of layers."""

    name = "sized-layers"

    def __init__(self, variant: str = "size:1", watch: Watch | None = None) -> None:
        super().__init__(variant, watch)
        self.shape = {"layers": self.batch}
        self.batch = TransformerTraining.batch


PROGRAMS: tuple[Any, ...] = (Transformer, Vocabulary, Images, Wide, Pairs, Length, Routed, Layers)
