"""What the survey of a program ends with where it meets something that no hash tells apart."""


class Unknown(Exception):
    """The program depends on something whose content is not known: it has no key."""
