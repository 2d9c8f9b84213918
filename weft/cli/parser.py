"""What the parsers of all commands have in common."""

import argparse


def command_parser(command: str, description: str, examples: str) -> argparse.ArgumentParser:
    """A command's parser without arguments, whose help ends with examples."""
    as_written = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(
        command, description=description, epilog=examples, formatter_class=as_written
    )
