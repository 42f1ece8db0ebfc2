"""What a command cannot do."""


class CannotRun(RuntimeError):
    """The command cannot do what it was asked; the message says why and what helps."""
