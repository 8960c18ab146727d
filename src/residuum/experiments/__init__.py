"""Experiments: run classifiers over trials, keep every raw result, and show it as table and report."""
