"""Solvers: how a coding problem is minimised."""
