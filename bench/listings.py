"""Tasks whose answers mostly repeat their prompts: code to be written out again, changed a bit."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Listing:
    """A piece of code and what its second version has that the first has not."""

    title: str
    language: str
    code: str
    change: str

    def prompt(self) -> str:
        """Shows the first version and begins the second; the code block's end ends the answer."""
        return (
            f"{self.title}, first version:\n\n```{self.language}\n{self.code}```\n\n"
            f"Second version, the same code {self.change}:\n\n```{self.language}\n"
        )


LISTINGS = (
    Listing(
        "Shopping cart",
        "python",
        """\
def price_of(cart, prices):
    total = 0
    for name, count in cart.items():
        total = total + count * prices[name]
    if total > 100:
        total = total - total // 10
    return total


def cheapest(carts, prices):
    best = None
    for cart in carts:
        total = price_of(cart, prices)
        if best is None or total < best:
            best = total
    return best
""",
        "with the variable `total` renamed to `amount`",
    ),
    Listing(
        "Matrix type",
        "python",
        """\
class Matrix:
    def __init__(self, rows):
        self.rows = rows

    def transpose(self):
        return Matrix([list(column) for column in zip(*self.rows)])

    def scale(self, factor):
        return Matrix([[factor * value for value in row] for row in self.rows])

    def add(self, other):
        pairs = zip(self.rows, other.rows)
        return Matrix([[a + b for a, b in zip(left, right)] for left, right in pairs])
""",
        "with the class `Matrix` renamed to `Grid`",
    ),
    Listing(
        "Timetable",
        "json",
        """\
[
  {"line": 4, "from": "Harbour", "to": "Old Town", "departs": "08:15", "platform": 2},
  {"line": 4, "from": "Old Town", "to": "Station", "departs": "08:27", "platform": 1},
  {"line": 9, "from": "Station", "to": "Hill Road", "departs": "08:40", "platform": 3},
  {"line": 9, "from": "Hill Road", "to": "Airport", "departs": "08:58", "platform": 2}
]
""",
        "with the field `platform` renamed to `track`",
    ),
)
