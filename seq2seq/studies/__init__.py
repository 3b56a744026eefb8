"""One trained run with its attention, interventions and attributions; tables of many runs, tests of
their differences, and the report."""
