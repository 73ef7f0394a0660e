"""Adapters to model providers."""
