"""Token recycling: a static tree over what was likely after each token lately.

Luo et al., arXiv 2408.08696. A matrix keeps for every token the ids that the model found likeliest
after it when it was last verified, whatever came before. A tree of guesses is read off it.
"""

from collections import OrderedDict
from collections.abc import Mapping

from galley.spec.draft import Draft, Guess
from galley.spec.policy import DraftPolicy, Needs
from galley.spec.round import Batch, Opening, Round, RowView
from galley.spec.tree import Tree

TREE = Tree(parents=(0, 1, 2, 3, 0, 1, 0, 2, 5, 0, 1, 5, 6, 7, 3))  # wide near the root
LIKELY = 8  # ids kept for each token; no node has more children

Matrix = dict[int, list[int]]


class Recycle(DraftPolicy):
    """Trees for few rows at once, and chains of the likeliest ids for more.

    Each namespace has a matrix of its own, of at most a list of 8 ids for every id of the
    vocabulary; the least used are dropped when there are more than `namespaces`.
    """

    name = "recycle"
    needs = Needs(likely=LIKELY)

    tree: Tree

    def __init__(self, tree: Tree = TREE, chain: int = 3, namespaces: int = 32) -> None:
        self.tree = tree
        self.width = tree.width - 1
        self.chain = chain
        self.namespaces = namespaces
        self._matrices: OrderedDict[str, Matrix] = OrderedDict()
        self._rows: dict[int, Matrix] = {}  # by seat
        self._guessed: dict[int, list[int]] = {}  # by seat, in its last round

    def describe(self) -> Mapping[str, object]:
        return {**super().describe(), "parents": list(self.tree.parents), "chain": self.chain}

    def open(self, opening: Opening) -> None:
        matrix = self._matrices.setdefault(opening.namespace, {})
        self._matrices.move_to_end(opening.namespace)
        if len(self._matrices) > self.namespaces:
            self._matrices.popitem(last=False)
        self._rows[opening.seat] = matrix
        self._guessed[opening.seat] = []

    def close(self, row: RowView) -> None:
        del self._rows[row.seat], self._guessed[row.seat]

    def propose(self, batch: Batch) -> Draft:
        in_tree = len(batch.rows) <= self.tree.rows
        grow = self._grown if in_tree else self._chained
        for row in batch.rows:
            self._guessed[row.seat] = grow(row)
        guesses = [Guess(self._guessed[row.seat], source=self.name) for row in batch.rows]
        return Draft.of(guesses, self.width)._replace(in_tree=in_tree)

    def observe(self, batch: Batch, done: Round) -> None:
        if done.likely is None:
            return
        columns = (done.likely.tolist(), done.guessed.tolist())
        for row, likely, verified in zip(batch.rows, *columns, strict=True):
            fed = [row.tokens[-1], *self._guessed[row.seat][:verified]]
            self._rows[row.seat].update(zip(fed, likely, strict=False))

    def _grown(self, row: RowView) -> list[int]:
        """The tree's guesses; a place that nothing is known for gets a guess that falls."""
        matrix, tokens = self._rows[row.seat], [row.tokens[-1]]
        if tokens[0] not in matrix:
            return []
        for node, parent in enumerate(self.tree.parents, 1):
            child = self.tree.children(parent).index(node)
            tokens.append(matrix.get(tokens[parent], [0] * LIKELY)[child])
        return tokens[1:]

    def _chained(self, row: RowView) -> list[int]:
        matrix, tokens = self._rows[row.seat], [row.tokens[-1]]
        while len(tokens) <= self.chain and tokens[-1] in matrix:
            tokens.append(matrix[tokens[-1]][0])
        return tokens[1:]
