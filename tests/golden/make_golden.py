"""Makes golden.json: what SmolLM2-135M-Instruct answers in float32, computed by transformers.

Run with an interpreter that has torch and transformers:

    python tests/golden/make_golden.py FOLDER

FOLDER is the model in Hugging Face format; prompts.txt has one prompt a line, \\n for a line break.
Every prompt is answered greedily for 64 tokens, end tokens taken like any other, with the margin
between the two best logits at each step. For some prompts the logits of a few positions are kept:
at 256 fixed ids, and their maximum and logsumexp.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = Path(__file__).parent
STEPS = 64
LOGITS_OF = (0, 11, 22, 33, 44)
IDS = sorted(np.random.default_rng(0).choice(49152, 256, replace=False).tolist())


def main(folder: Path) -> None:
    torch.set_grad_enabled(False)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    lines = (HERE / "prompts.txt").read_text().splitlines()
    texts = [line.replace("\\n", "\n") for line in lines]
    prompts = [encode(tokenizer, text) for text in texts]
    content = {
        "answers": [
            {"text": text, "prompt": ids, **answer(model, ids)}
            for text, ids in zip(texts, prompts, strict=True)
        ],
        "logit_ids": IDS,
        "logits": [part for number in LOGITS_OF for part in logits(model, number, prompts[number])],
    }
    packed = json.dumps(content, ensure_ascii=False)
    for start in ('{"text"', '{"answer"'):  # one entry a line
        packed = packed.replace(start, "\n" + start)
    (HERE / "golden.json").write_text(packed + "\n")


def encode(tokenizer, text: str) -> list[int]:
    chat = [{"role": "user", "content": text}]
    rendered = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    return tokenizer(rendered, add_special_tokens=False)["input_ids"]


def answer(model, prompt: list[int]) -> dict[str, list]:
    """Greedy tokens and the margins they won by."""
    tokens, margins, cache = [], [], None
    fed = torch.tensor([prompt])
    for _ in range(STEPS):
        out = model(fed, past_key_values=cache, use_cache=True)
        best = out.logits[0, -1].topk(2)
        tokens.append(int(best.indices[0]))
        margins.append(round(float(best.values[0] - best.values[1]), 4))
        cache, fed = out.past_key_values, best.indices[None, :1]
    return {"tokens": tokens, "margins": margins}


def logits(model, number: int, prompt: list[int]) -> list[dict]:
    """The logits of the last position of a prompt and of three before it."""
    rows = model(torch.tensor([prompt])).logits[0]
    positions = [len(prompt) - 1, len(prompt) // 2, 5, 1]
    return [
        {
            "answer": number,
            "position": position,
            "values": [round(float(value), 5) for value in rows[position, IDS]],
            "max": round(float(rows[position].max()), 5),
            "argmax": int(rows[position].argmax()),
            "logsumexp": round(float(rows[position].logsumexp(0)), 5),
        }
        for position in positions
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
