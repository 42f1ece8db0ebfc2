"""What a job may ask of those who guess."""

from galley.sched.job import Job, JobRefused
from galley.spec.round import PREDICTION, Driver


def check_guessing(job: Job, driver: Driver) -> None:
    """Raises JobRefused for a guesser that is not there, or more guesses than are ever verified."""
    known = driver.guessers
    if job.guesser is not None and job.guesser not in known:
        raise JobRefused(
            "guesser",
            f"guesser is {job.guesser!r}; there are {', '.join(known)}",
        )
    if job.guesser == PREDICTION and job.prediction is None:
        raise JobRefused(
            "guesser",
            f"guesser is {PREDICTION!r} and there is no prediction; send one",
        )
    most = driver.most_guesses
    if job.most_guesses is not None and not 0 <= job.most_guesses <= most:
        raise JobRefused(
            "most_guesses",
            f"most_guesses is {job.most_guesses}: a round verifies 0 to {most} guesses of a row",
        )
    if job.prediction is not None and len(job.prediction) > driver.context:
        raise JobRefused(
            "prediction",
            f"the prediction has {len(job.prediction)} tokens and the context is "
            f"{driver.context}, prompt included; shorten the prediction",
        )
