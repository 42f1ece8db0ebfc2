"""What a draft head says it is."""

from dataclasses import dataclass
from typing import Literal

from galley.model.config import ModelConfig, RopeScaling

Kind = Literal["eagle", "medusa"]


class BadHead(ValueError):
    """A draft head is damaged, unknown or made for another model; the message says which."""


@dataclass(frozen=True)
class HeadConfig:
    """The shape of a draft head and the numbers its forward pass depends on.

    An eagle head is a layer of its own that is applied once for each token it drafts. A medusa
    head drafts all of its tokens in one call.
    """

    kind: Kind
    hidden_size: int  # of the target: the streams a head takes and gives
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_theta: float
    norm_eps: float
    vocab_size: int  # the target's
    draft_vocab: int  # ids the head may draft
    taps: tuple[int, ...]  # eagle: layers of the target after which the stream is taken
    depth: int  # medusa: tokens drafted in a call; eagle: steps it was trained to be unrolled for
    tap_norms: bool = False  # eagle: each tap has a norm of its own before they are fused
    norm_output: bool = False  # eagle: what is fed back is normed; otherwise only the logits are
    joins: bool = False  # eagle: hidden and embedding are joined by a product before attention
    norm_before_residual: bool = False  # eagle: the stream past attention is the normed one
    shares_logits: bool = False  # no logits weight of its own: the target's rows of the draft ids
    bias_rank: int = 0  # medusa: of the bias by the previous token; 0: no such bias
    rope_scaling: RopeScaling | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("eagle", "medusa"):
            raise BadHead(f"a head of kind {self.kind!r} is unknown; kinds are eagle and medusa")
        if self.depth < 1:
            raise BadHead(f"depth is {self.depth}; a head drafts at least one token")
        if not 1 <= self.draft_vocab <= self.vocab_size:
            raise BadHead(
                f"the head drafts {self.draft_vocab} ids of a vocabulary of {self.vocab_size}; "
                "it can draft no more than there are, and at least one"
            )
        if (self.kind == "eagle") != bool(self.taps):
            raise BadHead(f"a head of kind {self.kind} cannot have the taps {list(self.taps)}")

    def layer_of(self, model: ModelConfig) -> bool:
        """Whether the head's layer has the shape of the model's layers."""
        names = ("hidden_size", "intermediate_size", "num_heads", "num_kv_heads", "head_dim")
        return all(getattr(self, name) == getattr(model, name) for name in names)

    @property
    def layer(self) -> ModelConfig:
        """The head as a model of one layer, which parts of decoders are made from."""
        return ModelConfig(
            family="llama",
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_layers=1,
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            head_dim=self.head_dim,
            context=1,
            norm_eps=self.norm_eps,
            rope_theta=self.rope_theta,
            rope_scaling=self.rope_scaling,
            tied_embeddings=False,
            bos=None,
            eos=(),
        )


def usual_taps(layers: int) -> tuple[int, ...]:
    """After how many layers the streams are taken, unless a head says otherwise: low, mid, high."""
    return (min(2, layers), layers // 2, max(layers - 3, 0))
