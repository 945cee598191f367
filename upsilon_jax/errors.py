"""What a person can mend: a command says only these in one line, with exit code 2.

Anything else that is raised is a fault of the program, and keeps its traceback.
"""


class UserError(Exception):
    """Something that whoever started the program can mend; one line says what."""


class ConfigError(UserError):
    """A config that cannot be run."""


class DataError(UserError):
    """Data that are missing, damaged or not as they must be."""


class DataNotPrepared(DataError):
    """The data set is not on this disk, or not in a form that can be used."""


class WorkdirError(UserError):
    """A workdir that cannot be used."""
