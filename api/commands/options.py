"""Options that several commands share."""

import argparse
from pathlib import Path

DTYPES = ("bfloat16", "float32")
POLICIES = ("best", "none", "copy", "suffix", "recycle")
ARGUED_POLICIES = (
    "eagle:FOLDER",
    "medusa:FOLDER",
    "model:MODEL",
    "scripted:FILE",
    "oracle:FILE",
    "synthetic:RATE@FILE",
)
POLICY_HELP = (
    f"who guesses tokens: {', '.join((*POLICIES, *ARGUED_POLICIES))}, the name of an installed "
    "policy, package.module:Class, or several with commas in between, of which each row takes the "
    "best (default: best, which is suffix and the head that comes with the model, if one does); "
    "docs/policies.md explains them"
)
MODEL_HELP = (
    "a .gguf file, a Hugging Face or converted folder, or owner/name on the Hugging Face hub "
    "(default: the demo model, SmolLM2-135M-Instruct)"
)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """How a model is loaded and run."""
    group = parser.add_argument_group("engine")
    add_dtype(group)
    group.add_argument("--policy", metavar="POLICY", default="best", help=POLICY_HELP)
    group.add_argument(
        "--cache",
        metavar="DIR",
        type=Path,
        help="keeps the demo model and compiled programs (default: the user's cache folder)",
    )


def add_rounds(parser: argparse.ArgumentParser) -> None:
    """How rounds are run and told of."""
    group = parser.add_argument_group("drafts")
    group.add_argument(
        "--verifier",
        choices=("match", "reject"),
        default="match",
        help="match: the same tokens with and without drafts; reject: the same law, which lets "
        "more of a head's guesses stand at a temperature (default: match)",
    )
    group.add_argument(
        "--widths",
        choices=("measured", "widest"),
        default="measured",
        help="verify as much of a draft as pays by the measured times, or always all of it, as "
        "the draft lab computes (default: measured)",
    )
    group.add_argument(
        "--shadow", metavar="POLICY", help="a policy that is asked and counted, and never used"
    )
    group.add_argument(
        "--trace",
        metavar="FILE",
        type=Path,
        help="write every round there, prompts and answers included; for galley lab",
    )


def add_dtype(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        default="bfloat16",
        help="of the weights and of what enters a product (default: bfloat16)",
    )
