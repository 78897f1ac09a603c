"""Several claims under one name, as Spark takes them, and writes by many tasks."""
