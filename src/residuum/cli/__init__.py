"""The sub-commands of ``residuum``, one file each; the dict COMMANDS in residuum.cli.main names them."""
