"""Recurring sends."""
