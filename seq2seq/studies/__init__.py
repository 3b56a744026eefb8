"""Compare trained runs: tables of runs and groups, tests of their differences, and the report."""
