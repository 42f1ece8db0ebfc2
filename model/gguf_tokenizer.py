"""The tokenizer that a GGUF file describes in its metadata, rebuilt."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors

from galley.model.checkpoint import BadCheckpoint, TokenizerFiles
from galley.model.config import UnsupportedModel

NORMAL, CONTROL, USER_DEFINED = 1, 3, 4

# Control tokens that end an answer in every model that has them. The metadata names only one.
ENDS = {
    "<|endoftext|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "</s>",
}

LLAMA_3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True)
class Splitter:
    """How one kind of byte-level tokenizer cuts text into words before it merges."""

    steps: tuple[pre_tokenizers.PreTokenizer, ...]
    whole_words: bool = False  # a word that is a token needs no merges
    adds_bos: bool = False  # where the file does not say


SPLITTERS = {
    "smollm": Splitter(
        (
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        )
    ),
    "gpt-2": Splitter((pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),)),
    "llama-bpe": Splitter(
        (
            pre_tokenizers.Split(Regex(LLAMA_3_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ),
        whole_words=True,
        adds_bos=True,
    ),
}


def rebuild(metadata: Mapping[str, Any]) -> TokenizerFiles:
    """The tokenizer in the form that the `tokenizers` library reads.

    Raises UnsupportedModel for a kind of tokenizer that is not implemented, BadCheckpoint for
    metadata that lack or contradict each other.
    """
    splitter = _splitter(metadata)
    tokens = list(metadata["tokenizer.ggml.tokens"])
    bos = _text(metadata, tokens, "bos")
    adds_bos = bool(metadata.get("tokenizer.ggml.add_bos_token", splitter.adds_bos))
    if adds_bos and bos is None:
        raise BadCheckpoint(
            "the GGUF file wants a first token before every prompt and names none; "
            "it lacks tokenizer.ggml.bos_token_id"
        )
    tokenizer = _tokenizer(metadata, tokens, splitter)
    if adds_bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, tokens.index(bos))]
        )
    return TokenizerFiles(
        tokenizer_json=tokenizer.to_str(),
        chat_template=metadata.get("tokenizer.chat_template"),
        bos=bos,
        eos=_text(metadata, tokens, "eos"),
        adds_bos=adds_bos,
    )


def end_ids(metadata: Mapping[str, Any]) -> tuple[int, ...]:
    """Ids that end an answer: those the metadata name first, then control tokens known as ends."""
    named = [metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom")]
    pairs = zip(metadata["tokenizer.ggml.tokens"], _kinds(metadata), strict=True)
    known = [
        number for number, (text, kind) in enumerate(pairs) if kind == CONTROL and text in ENDS
    ]
    return tuple(dict.fromkeys(number for number in (*named, *known) if number is not None))


def _splitter(metadata: Mapping[str, Any]) -> Splitter:
    missing = {"tokenizer.ggml.model", "tokenizer.ggml.tokens"} - metadata.keys()
    if missing:
        raise BadCheckpoint(
            f"the GGUF file has no tokenizer: it lacks {' and '.join(sorted(missing))}; "
            "get a file made for text generation"
        )
    model, pre = metadata["tokenizer.ggml.model"], metadata.get("tokenizer.ggml.pre")
    if model != "gpt2" or pre not in SPLITTERS:
        raise UnsupportedModel(
            f"the GGUF file has a tokenizer of kind {model!r} with words split as {pre!r}; "
            f"supported is 'gpt2' with {', '.join(SPLITTERS)}: use the model's Hugging Face folder"
        )
    return SPLITTERS[pre]


def _tokenizer(metadata: Mapping[str, Any], tokens: list[str], splitter: Splitter) -> Tokenizer:
    merges = [tuple(merge.split(" ")) for merge in metadata.get("tokenizer.ggml.merges", ())]
    vocab = {text: number for number, text in enumerate(tokens)}
    for pair in merges:
        if len(pair) != 2 or not {*pair, "".join(pair)} <= vocab.keys():
            raise BadCheckpoint(f"the GGUF file merges {pair}, which are not tokens; get it again")
    if len(vocab) != len(tokens):
        raise BadCheckpoint("the GGUF file gives two ids to one token text; get it again")
    built = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=splitter.whole_words))
    built.pre_tokenizer = pre_tokenizers.Sequence(list(splitter.steps))
    built.decoder = decoders.ByteLevel()
    built.add_tokens(_added(tokens, _kinds(metadata)))
    return built


def _added(tokens: list[str], kinds: list[int]) -> list[AddedToken]:
    """Tokens that are found in the text as they stand, before it is split into words."""
    return [
        AddedToken(text, special=kind == CONTROL, normalized=False)
        for text, kind in zip(tokens, kinds, strict=True)
        if kind in (CONTROL, USER_DEFINED)
    ]


def _kinds(metadata: Mapping[str, Any]) -> list[int]:
    tokens = metadata["tokenizer.ggml.tokens"]
    kinds = list(metadata.get("tokenizer.ggml.token_type", [NORMAL] * len(tokens)))
    if len(kinds) != len(tokens):
        raise BadCheckpoint(
            f"the GGUF file has {len(tokens)} tokens and {len(kinds)} token types; get it again"
        )
    return kinds


def _text(metadata: Mapping[str, Any], tokens: list[str], name: str) -> str | None:
    number = metadata.get(f"tokenizer.ggml.{name}_token_id")
    if number is None:
        return None
    if not 0 <= number < len(tokens):
        raise BadCheckpoint(
            f"the GGUF file names token {number} as its {name} token and has {len(tokens)} tokens; "
            "get it again"
        )
    return tokens[int(number)]
