"""The two ways in which this library refuses: what a visitor brought, and what a checkpoint holds."""


class BadInput(ValueError):
    """The visitor's image, question or settings cannot be used; the message is one sentence that says what to do."""


class BadCheckpoint(ValueError):
    """A model folder is wrong or incomplete; the message is one sentence: what is wrong with it, and what to do."""
