"""The fields of a request that say how its answers are chosen and when they end."""

from typing import Annotated

from msgspec import Meta, Struct

from galley.sched.sampling import MOST_BAD, MOST_BIASES, MOST_STOP_IDS

Stop = Annotated[str, Meta(min_length=1, max_length=1000)]


class SamplingFields(Struct, kw_only=True, forbid_unknown_fields=True):
    """Null means absent."""

    temperature: Annotated[float, Meta(ge=0, le=2, description="0 is greedy.")] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=0, lt=2**31, description="0 is off.")] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    stop: Stop | Annotated[list[Stop], Meta(max_length=16)] | None = None
    typical_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    repetition_penalty: (
        Annotated[float, Meta(ge=0.01, le=10, description="1 is off. Over prompt and answer.")]
        | None
    ) = None
    logit_bias: (
        Annotated[
            dict[str, Annotated[float, Meta(ge=-100, le=100)]],
            Meta(max_length=MOST_BIASES, description="By token id."),
        ]
        | None
    ) = None
    min_tokens: (
        Annotated[int, Meta(ge=0, description="Before as many, nothing ends the answer.")] | None
    ) = None
    ignore_eos: bool | None = None
    stop_token_ids: (
        Annotated[
            list[Annotated[int, Meta(ge=0)]],
            Meta(max_length=MOST_STOP_IDS, description="Tokens that end the answer, unshown."),
        ]
        | None
    ) = None
    bad_words: (
        Annotated[
            list[Annotated[str, Meta(min_length=1, max_length=200)]],
            Meta(max_length=MOST_BAD, description="Texts whose tokens the answer may not have."),
        ]
        | None
    ) = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: (
        Annotated[bool, Meta(description="False: special tokens are shown.")] | None
    ) = None
