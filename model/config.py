"""What a checkpoint says it is."""

from dataclasses import dataclass


class UnsupportedModel(ValueError):
    """The checkpoint asks for something that is not implemented; the message names it."""


@dataclass(frozen=True)
class RopeScaling:
    """Frequency scaling of llama 3.1 and later: low frequencies stretched, high ones kept."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a decoder and the numbers its forward pass depends on."""

    family: str  # a key of families.FAMILIES
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    context: int  # positions the checkpoint was trained for
    norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling | None
    tied_embeddings: bool
    bos: int | None
    eos: tuple[int, ...]  # ids that end an answer

    def __post_init__(self) -> None:
        for name in ("vocab_size", "hidden_size", "intermediate_size", "num_layers", "context"):
            if getattr(self, name) < 1:
                raise UnsupportedModel(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.num_kv_heads < 1 or self.num_heads % self.num_kv_heads:
            raise UnsupportedModel(
                f"{self.num_heads} query heads cannot share {self.num_kv_heads} key-value heads"
            )
        if self.head_dim < 2 or self.head_dim % 2:
            raise UnsupportedModel(f"head_dim is {self.head_dim}; rotary positions need it even")
        for number in (*self.eos, *(() if self.bos is None else (self.bos,))):
            if not 0 <= number < self.vocab_size:
                raise UnsupportedModel(
                    f"special token id {number} lies outside the vocabulary of {self.vocab_size}"
                )
