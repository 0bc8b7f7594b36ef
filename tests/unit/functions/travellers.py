"""A module that can be imported, or travel by value."""


def greet() -> str:
    return "hello"
