"""How much a row may ask for: the arrays of all rows are of these sizes. No jax here."""

MOST_BIASES = 300  # tokens that have a bias
MOST_ENDS = 128  # tokens that may end an answer
MOST_WORDS = 128  # sequences of tokens that may not be in it
LONGEST_WORD = 8  # tokens of one of them
