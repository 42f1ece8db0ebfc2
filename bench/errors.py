"""Why a measurement cannot go on."""


class BenchError(RuntimeError):
    """Nothing can be measured like this; the message says what is wrong and what to do."""
