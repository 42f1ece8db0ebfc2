"""The model card that goes with a head."""

from galley.model.heads.head import Head


def readme(head: Head) -> str:
    """What the head is for, how it was made and how good it is, in Markdown."""
    card, config = head.card, head.config
    places = range(1, len(card["acceptance"]) + 1)
    rows = "\n".join(
        f"| {place} | {chance:.3f} | {tokens:.2f} |"
        for place, chance, tokens in zip(
            places, card["acceptance"], card["tokens_a_round"], strict=True
        )
    )
    recipe = card["recipe"]
    return f"""# Draft head ({config.kind}) for {card["target"]}

Guesses the tokens that {card["target"]} is about to say. It says nothing by itself: every guess is
checked by the target, so it changes how fast answers come and never what they are.

- Target: {card["target"]}, sha256 {card["target_digest"][:16]}; of another model it would be
  guessing blindly.
- Drafts the {config.draft_vocab:,} most frequent ids, which are
  {100 * card["held_out_coverage"]:.1f} % of the tokens of held-out answers.
- Data: {card["answer_tokens"]:,} answer tokens by the target itself, half of the answers greedy and
  half at temperature 0.8, and the user turns it made up for them from short openings. No data of
  other origin.
- Training: {card["steps"]:,} steps of {recipe["rows"]} rows of {recipe["length"]} tokens, AdamW,
  learning rate {recipe["learning_rate"]:g}, seed {recipe["seed"]}, jax {card["jax"]}; drafts of
  {config.depth} in a row.

How often a draft is the token of a greedy held-out answer, if all drafts before it in its chain
are ({card["held_out_tokens"]:,} answer tokens held out, by prompt):

| draft | right | tokens a round with a chain of so many |
| --- | --- | --- |
{rows}
"""
