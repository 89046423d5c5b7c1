"""Why the fused engine is not used, for the sentence that says so."""


class UnavailableError(Exception):
    """Why the fused engine cannot run: a clause without a full stop."""


class NothingToFuseError(UnavailableError):
    """The method gains nothing from it on this device."""
