"""Schedules: recurring sends."""
