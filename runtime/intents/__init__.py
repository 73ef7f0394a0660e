"""Classifiers that propose what a plain message means."""
