"""Representation-based classification."""
