"""Options that several commands share."""

import argparse
from pathlib import Path

DTYPES = ("bfloat16", "float32")
POLICIES = ("copy", "none")
MODEL_HELP = (
    "a .gguf file, a Hugging Face or converted folder, or owner/name on the Hugging Face hub "
    "(default: the demo model, SmolLM2-135M-Instruct)"
)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """How a model is loaded and run."""
    group = parser.add_argument_group("engine")
    add_dtype(group)
    group.add_argument(
        "--policy",
        choices=POLICIES,
        default="copy",
        help="who guesses tokens: copies from the row's own text, or nobody (default: copy)",
    )
    group.add_argument(
        "--cache",
        metavar="DIR",
        type=Path,
        help="keeps the demo model and compiled programs (default: the user's cache folder)",
    )


def add_dtype(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        default="bfloat16",
        help="of the weights and of what enters a product (default: bfloat16)",
    )
