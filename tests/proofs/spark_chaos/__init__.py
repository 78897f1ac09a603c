"""Kills drivers, executors, writers and Redis under Spark, and counts what is lost and what comes twice."""
