"""The one error a user is meant to read."""


class HyperMaskError(Exception):
    """Bad input, told in one sentence: what was wrong, what was expected, what to do.

    The command line prints the sentence and exits with status 2.
    """
