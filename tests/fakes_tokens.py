"""Small tokenizers of the two kinds that models use, made in memory."""

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Vocabulary

from galley.model.checkpoint import TokenizerFiles
from galley.model.spelling import byte_characters
from galley.model.tokens import Tokenizer

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

STRICT = """{{ bos_token }}
{%- for message in messages %}
    {%- if message['role'] == 'system' %}
        {{- raise_exception('System role not supported') }}
    {%- elif (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Conversation roles must alternate user/assistant/user/...') }}
    {%- elif message['role'] == 'user' %}
        {{- '[INST] ' + message['content'] + ' [/INST]' }}
    {%- else %}
        {{- message['content'] + eos_token }}
    {%- endif %}
{%- endfor %}"""


def byte_level_files(chat_template: str | None = CHATML) -> TokenizerFiles:
    """Id n is byte n up to 255, then a few words, then the special tokens of ChatML."""
    vocab = dict(byte_characters())
    merges = [("h", "e"), ("Ġ", "t"), ("Ġt", "he"), ("l", "l"), ("he", "ll"), ("hell", "o")]
    vocab |= {left + right: 256 + place for place, (left, right) in enumerate(merges)}
    vocabulary = Vocabulary(models.BPE(vocab=vocab, merges=merges))
    vocabulary.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    vocabulary.decoder = decoders.ByteLevel()
    vocabulary.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    vocabulary.add_tokens([AddedToken("<think>", special=False)])
    return TokenizerFiles(
        tokenizer_json=vocabulary.to_str(),
        chat_template=chat_template,
        bos="<|endoftext|>",
        eos="<|im_end|>",
        adds_bos=False,
    )


def sentencepiece_files(chat_template: str | None = None) -> TokenizerFiles:
    """<unk>, <s>, </s>, byte n as id 3 + n, then pieces that carry the space before a word."""
    letters = ["▁", *"abcehot[]/INST", "▁t", "he", "▁the", "▁c", "at", "▁cat", "中"]
    symbols = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters]
    vocabulary = Vocabulary(
        models.BPE(
            vocab={symbol: place for place, symbol in enumerate(symbols)},
            merges=[("▁", "t"), ("h", "e"), ("▁t", "he"), ("▁", "c"), ("a", "t"), ("▁c", "at")],
            unk_token="<unk>",
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    vocabulary.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    vocabulary.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)]
    )
    vocabulary.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    vocabulary.add_special_tokens(["<unk>", "<s>", "</s>"])
    return TokenizerFiles(
        tokenizer_json=vocabulary.to_str(),
        chat_template=chat_template,
        bos="<s>",
        eos="</s>",
        adds_bos=True,
    )


def byte_level() -> Tokenizer:
    """A tokenizer without BOS, with a ChatML template."""
    return Tokenizer(byte_level_files())


def sentencepiece() -> Tokenizer:
    """A tokenizer with BOS and byte fallback, and without a chat template."""
    return Tokenizer(sentencepiece_files())


def strict() -> Tokenizer:
    """Its template prints BOS, wants users and assistants in turn and refuses a system role."""
    return Tokenizer(sentencepiece_files(STRICT))
