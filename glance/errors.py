"""The ways in which this library refuses: what a visitor brought, what a checkpoint holds, and what a trace says."""


class BadInput(ValueError):
    """The visitor's image, question or settings cannot be used; the message is one sentence that says what to do."""


class BadCheckpoint(ValueError):
    """A model folder is wrong or incomplete; the message is one sentence: what is wrong with it, and what to do."""


class TraceError(ValueError):
    """The text is not a trace that this version can read; the message says what to do."""
