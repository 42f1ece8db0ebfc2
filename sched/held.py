"""What a job whose answer is held to a grammar must not ask for."""

from galley.sched.job import Job, JobRefused


def check_grammar(job: Job) -> None:
    """Raises JobRefused where the answer could not end when its grammar does."""
    if job.grammar is None:
        return
    asked = job.sampling
    if asked.ignore_eos:
        message = "ignore_eos is true, but the answer ends where its grammar does; leave it out"
        raise JobRefused("ignore_eos", message)
    if asked.min_tokens:
        message = (
            f"min_tokens is {asked.min_tokens}, but the answer ends where its grammar does; "
            "leave it out"
        )
        raise JobRefused("min_tokens", message)
